import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads clusters back with Kafka's own consumer. */
final class Reader {
  private static final Duration POLL = Duration.ofMillis(200);
  private static final long LIMIT_MS = 120_000;

  private Reader() {}

  static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, Map<String, String> configs) {
    Properties properties = new Properties();
    properties.putAll(Shell.client(bootstrap));
    properties.put("enable.auto.commit", "false");
    properties.put("auto.offset.reset", "none");
    properties.put("isolation.level", "read_committed");
    properties.put("max.poll.records", "5000");
    properties.put("allow.auto.create.topics", "false");
    properties.putAll(configs);
    return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  /** What is done with the records of one partition, in their order. */
  interface Sink {
    void accept(TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records) throws IOException;
  }

  /** Reads all partitions of some topics from their start to what was their end when this began. */
  static void read(String bootstrap, List<String> topics, String isolation, Ends ends, Sink sink)
      throws IOException {
    try (var consumer = consumer(bootstrap, Map.of("isolation.level", isolation))) {
      List<TopicPartition> partitions = new ArrayList<>();
      for (String topic : topics) {
        for (PartitionInfo info : consumer.partitionsFor(topic)) {
          partitions.add(new TopicPartition(topic, info.partition()));
        }
      }
      consumer.assign(partitions);
      Map<TopicPartition, Long> starts = consumer.beginningOffsets(partitions);
      Map<TopicPartition, Long> stops = consumer.endOffsets(partitions);
      starts.forEach(consumer::seek);
      for (TopicPartition partition : partitions) {
        ends.accept(partition, starts.get(partition), stops.get(partition));
      }
      Set<TopicPartition> left = new HashSet<>(partitions);
      long limit = System.currentTimeMillis() + LIMIT_MS;
      while (true) {
        // A position passes holes and markers at the end too, so it is what tells the end.
        left.removeIf(partition -> consumer.position(partition) >= stops.get(partition));
        if (left.isEmpty()) {
          return;
        }
        if (System.currentTimeMillis() > limit) {
          throw new IllegalStateException("not read to the end within " + LIMIT_MS + " ms: " + left);
        }
        var records = consumer.poll(POLL);
        for (TopicPartition partition : records.partitions()) {
          long stop = stops.get(partition);
          var some = records.records(partition);
          // Live producers may have gone on since the ends were asked for.
          if (some.get(some.size() - 1).offset() >= stop) {
            some = some.stream().filter(record -> record.offset() < stop).toList();
          }
          sink.accept(partition, some);
        }
      }
    }
  }

  /** Told once per partition, before its records: its first offset and one past its last one. */
  interface Ends {
    void accept(TopicPartition partition, long start, long end) throws IOException;
  }

  /**
   * Writes digests: {@code P topic partition start end} heads a stretch of a partition, then {@code offset
   * timestamp key value headers number} per record, digests in hexadecimal, {@code -} for nothing.
   */
  static long dump(String bootstrap, List<String> topics, String isolation, Path file) throws IOException {
    long[] count = {0};
    Map<TopicPartition, String> heads = new java.util.HashMap<>();
    try (BufferedWriter out = Files.newBufferedWriter(file)) {
      Ends ends =
          (partition, start, end) -> {
            String head = "P " + partition.topic() + " " + partition.partition() + " " + start + " " + end + "\n";
            heads.put(partition, head);
            out.write(head);
          };
      StringBuilder lines = new StringBuilder();
      Sink sink =
          (partition, records) -> {
            lines.setLength(0);
            lines.append(heads.get(partition));
            for (var record : records) {
              lines.append(record.offset()).append(' ').append(record.timestamp()).append(' ');
              digest(lines, record.key());
              digest(lines, record.value());
              lines.append(Long.toHexString(Records.digest(record.headers()))).append(' ');
              Long number = Records.number(record.value(), record.headers());
              lines.append(number == null ? "-" : number).append('\n');
              count[0]++;
            }
            out.append(lines);
          };
      read(bootstrap, topics, isolation, ends, sink);
    }
    return count[0];
  }

  private static void digest(StringBuilder line, byte[] bytes) {
    line.append(bytes == null ? "-" : Long.toHexString(Records.digest(bytes))).append(' ');
  }

  /** The first record of each partition, read from the offsets that the group has committed. */
  static List<Map<String, Object>> next(String bootstrap, String group, Set<TopicPartition> partitions) {
    List<Map<String, Object>> answers = new ArrayList<>();
    if (partitions.isEmpty()) {
      return answers;
    }
    try (var consumer = consumer(bootstrap, Map.of("group.id", group))) {
      consumer.assign(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      Map<TopicPartition, Long> committed = new TreeMap<>(ORDER);
      for (TopicPartition partition : partitions) {
        // Kafka's client asks the coordinator for the committed offset here, as after a failover.
        committed.put(partition, consumer.position(partition));
      }
      Map<TopicPartition, ConsumerRecord<byte[], byte[]>> first = new java.util.HashMap<>();
      Set<TopicPartition> left = new HashSet<>(partitions);
      long limit = System.currentTimeMillis() + LIMIT_MS;
      while (true) {
        left.removeIf(
            partition -> first.containsKey(partition) || consumer.position(partition) == ends.get(partition));
        if (left.isEmpty()) {
          break;
        }
        if (System.currentTimeMillis() > limit) {
          throw new IllegalStateException("no record within " + LIMIT_MS + " ms: " + left);
        }
        // A position past the end is refused by the broker and thrown by this poll.
        var records = consumer.poll(POLL);
        for (TopicPartition partition : records.partitions()) {
          first.putIfAbsent(partition, records.records(partition).get(0));
        }
        consumer.pause(first.keySet());
      }
      committed.forEach(
          (partition, offset) -> {
            Map<String, Object> answer = new TreeMap<>();
            answer.put("topic", partition.topic());
            answer.put("partition", partition.partition());
            answer.put("committed", offset);
            var record = first.get(partition);
            answer.put("offset", record == null ? null : record.offset());
            answer.put("number", record == null ? null : Records.number(record.value(), record.headers()));
            answer.put("timestamp", record == null ? null : record.timestamp());
            answers.add(answer);
          });
    }
    return answers;
  }

  private static final java.util.Comparator<TopicPartition> ORDER =
      java.util.Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition);
}
