import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Commits in groups of the source, and how long it takes until each group stands at least there on the
 * target: from the moment the commit is sent to the moment the target's log of commits shows it.
 *
 * <pre>
 * transaction SOURCE TOPIC GROUP OFFSET commit|abort
 * measure SOURCE TARGET TOPIC TARGET-TOPIC PREFIX GROUPS COMMITS-PER-SECOND WARM-UP-S SECONDS
 * </pre>
 */
public final class CommitLatency {
  private record Waiting(long offset, long sentNanos) {}

  public static void main(String[] args) throws Exception {
    if (args[0].equals("transaction")) {
      transaction(args[1], args[2], args[3], Long.parseLong(args[4]), args[5].equals("commit"));
    } else {
      measure(args);
    }
  }

  private static void transaction(String source, String topic, String group, long offset, boolean commit) {
    Map<String, Object> configs = Map.of("bootstrap.servers", source, "transactional.id", "tx-" + group);
    try (var producer = new KafkaProducer<>(configs, new ByteArraySerializer(), new ByteArraySerializer())) {
      producer.initTransactions();
      producer.beginTransaction();
      producer.sendOffsetsToTransaction(
          Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(offset)), new ConsumerGroupMetadata(group));
      if (commit) {
        producer.commitTransaction();
      } else {
        producer.abortTransaction();
      }
    }
  }

  private static void measure(String[] args) throws Exception {
    String source = args[1];
    String target = args[2];
    String topic = args[3];
    String targetTopic = args[4];
    String prefix = args[5];
    int groups = Integer.parseInt(args[6]);
    int perSecond = Integer.parseInt(args[7]);
    long warmUp = Long.parseLong(args[8]) * 1_000_000_000L;
    long length = warmUp + Long.parseLong(args[9]) * 1_000_000_000L;
    Map<String, ArrayDeque<Waiting>> waiting = new ConcurrentHashMap<>();
    List<Long> latencies = Collections.synchronizedList(new ArrayList<>());
    try (var admin = Admin.create(Map.of("bootstrap.servers", source));
        var there = Admin.create(Map.of("bootstrap.servers", target));
        var producer =
            new KafkaProducer<>(
                Map.<String, Object>of("bootstrap.servers", source, "linger.ms", 0),
                new ByteArraySerializer(),
                new ByteArraySerializer())) {
      // So that the target has a log of commits.
      there
          .alterConsumerGroupOffsets(
              "commit-latency", Map.of(new TopicPartition(targetTopic, 0), new OffsetAndMetadata(0)))
          .all()
          .get();
      boolean[] stop = {false};
      Thread watcher = new Thread(() -> watch(target, targetTopic, waiting, latencies, stop));
      watcher.start();
      TopicPartition partition = new TopicPartition(topic, 0);
      AtomicLong end = new AtomicLong(producer.send(new ProducerRecord<>(topic, 0, null, new byte[100])).get().offset() + 1);
      long start = System.nanoTime();
      long sent = 0;
      long produced = 0;
      while (System.nanoTime() - start < length) {
        long now = System.nanoTime() - start;
        if (produced * 100_000_000L <= now) {
          produced++;
          producer.send(
              new ProducerRecord<>(topic, 0, null, new byte[100]),
              (metadata, error) -> {
                if (error == null) {
                  end.accumulateAndGet(metadata.offset() + 1, Math::max);
                }
              });
        }
        if (sent * 1_000_000_000L / perSecond <= now) {
          String group = prefix + sent % groups;
          sent++;
          long offset = end.get();
          if (now >= warmUp) {
            var queue = waiting.computeIfAbsent(group, any -> new ArrayDeque<>());
            synchronized (queue) {
              queue.add(new Waiting(offset, System.nanoTime()));
            }
          }
          admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(offset)));
        } else {
          Thread.sleep(0, 200_000);
        }
      }
      long patience = System.nanoTime() + 10_000_000_000L;
      while (left(waiting) > 0 && System.nanoTime() < patience) {
        Thread.sleep(20);
      }
      stop[0] = true;
      watcher.join();
    }
    List<Long> sorted = new ArrayList<>(latencies);
    Collections.sort(sorted);
    System.out.printf(
        "{\"commits\": %d, \"left\": %d, \"p50\": %.1f, \"p99\": %.1f, \"max\": %.1f}%n",
        sorted.size(), left(waiting), at(sorted, 0.5), at(sorted, 0.99), at(sorted, 1.0));
  }

  private static int left(Map<String, ArrayDeque<Waiting>> waiting) {
    int left = 0;
    for (var queue : waiting.values()) {
      synchronized (queue) {
        left += queue.size();
      }
    }
    return left;
  }

  private static double at(List<Long> sorted, double share) {
    if (sorted.isEmpty()) {
      return -1;
    }
    return sorted.get((int) Math.min(sorted.size() - 1, Math.floor(share * sorted.size()))) / 1e6;
  }

  /** Follows the target's log of commits. */
  private static void watch(
      String target,
      String topic,
      Map<String, ArrayDeque<Waiting>> waiting,
      List<Long> latencies,
      boolean[] stop) {
    Map<String, Object> configs =
        Map.of("bootstrap.servers", target, "exclude.internal.topics", false, "auto.offset.reset", "latest");
    try (var consumer =
        new KafkaConsumer<>(configs, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      List<TopicPartition> all = new ArrayList<>();
      consumer.partitionsFor("__consumer_offsets").forEach(info -> all.add(new TopicPartition(info.topic(), info.partition())));
      consumer.assign(all);
      consumer.seekToEnd(all);
      all.forEach(consumer::position);
      while (!stop[0]) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
          long now = System.nanoTime();
          if (record.key() == null || record.value() == null) {
            continue;
          }
          ByteBuffer key = ByteBuffer.wrap(record.key());
          if (key.getShort() > 1) {
            continue;
          }
          String group = text(key);
          if (!text(key).equals(topic)) {
            continue;
          }
          long offset = ByteBuffer.wrap(record.value()).getLong(2);
          var queue = waiting.get(group);
          if (queue == null) {
            continue;
          }
          synchronized (queue) {
            while (!queue.isEmpty() && queue.peek().offset() <= offset) {
              latencies.add(now - queue.poll().sentNanos());
            }
          }
        }
      }
    }
  }

  private static String text(ByteBuffer from) {
    byte[] bytes = new byte[from.getShort()];
    from.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
