import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Goes on producing until told to stop, and reports what was acknowledged as lines of JSON in a file:
 * {@code acknowledged} (after the commit of its transaction, if it has one), {@code committed} by the
 * following group, and {@code failed}.
 */
final class Live {
  private record Place(String kind, String topic, int partition) {}

  private static final int TRANSACTION = 10;

  private final String bootstrap;
  private final int valueBytes;
  private final Writer out;
  private final List<Thread> threads = new ArrayList<>();
  private final AtomicLong acknowledged = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();
  private final AtomicLong committed = new AtomicLong();
  private volatile boolean stopping;
  private volatile boolean producing = true;

  private Live(String bootstrap, int valueBytes, Writer out) {
    this.bootstrap = bootstrap;
    this.valueBytes = valueBytes;
    this.out = out;
  }

  static Live start(JsonNode request) throws IOException {
    Path file = Path.of(request.get("file").asText());
    Live live =
        new Live(
            request.get("bootstrap").asText(),
            request.get("value_bytes").asInt(),
            Files.newBufferedWriter(file));
    List<Place> plain = new ArrayList<>();
    List<Place> transactional = new ArrayList<>();
    List<String> topics = new ArrayList<>();
    for (JsonNode topic : request.get("topics")) {
      String kind = topic.get("kind").asText();
      String name = topic.get("name").asText();
      topics.add(name);
      for (int partition = 0; partition < topic.get("partitions").asInt(); partition++) {
        boolean inTransactions = kind.equals("transactional") || kind.equals("tenth-aborted");
        (inTransactions ? transactional : plain).add(new Place(kind, name, partition));
      }
    }
    double each = request.get("rate").asDouble() / (plain.size() + transactional.size());
    if (!plain.isEmpty()) {
      live.thread("plain", () -> live.plain(plain, each * plain.size()));
    }
    if (!transactional.isEmpty()) {
      live.thread("transactional", () -> live.transactional(transactional, each * transactional.size()));
    }
    JsonNode group = request.get("group");
    if (group != null && !group.isNull()) {
      live.thread("group", () -> live.follow(group.asText(), topics));
    }
    return live;
  }

  Map<String, Object> totals() throws IOException {
    synchronized (out) {
      out.flush();
    }
    return Map.of("acknowledged", acknowledged.get(), "failed", failed.get(), "committed", committed.get());
  }

  Map<String, Object> stop() throws IOException, InterruptedException {
    stopping = true;
    for (Thread thread : threads) {
      if (!thread.getName().equals("group")) {
        thread.join();
      }
    }
    // The group stops last: it may commit all that was produced.
    producing = false;
    for (Thread thread : threads) {
      thread.join();
    }
    Map<String, Object> totals = totals();
    out.close();
    return totals;
  }

  private void thread(String name, Runnable work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (RuntimeException e) {
                e.printStackTrace();
                fail(e);
              }
            },
            name);
    threads.add(thread);
    thread.start();
  }

  /** Waits until record {@code count} is due; false when it is time to stop. */
  private boolean due(long start, long count, double rate) {
    long at = start + (long) (count * 1e9 / rate);
    for (long left = at - System.nanoTime(); left > 0 && !stopping; left = at - System.nanoTime()) {
      LockSupport.parkNanos(Math.min(left, 50_000_000));
    }
    return !stopping;
  }

  private ProducerRecord<byte[], byte[]> record(Place place) {
    long number = Workload.numbers(bootstrap, place.topic, place.partition).getAndIncrement();
    long now = System.currentTimeMillis();
    return Workload.record(bootstrap, place.kind, place.topic, place.partition, number, now, valueBytes);
  }

  private void plain(List<Place> places, double rate) {
    long start = System.nanoTime();
    try (var producer = Records.producer(bootstrap, "lz4", null)) {
      for (long count = 0; due(start, count, rate); count++) {
        Place place = places.get((int) (count % places.size()));
        var record = record(place);
        Long number = Records.number(record.value(), record.headers());
        producer.send(
            record,
            (metadata, error) -> {
              if (error == null) {
                acknowledge(metadata, number);
              } else {
                fail(error);
              }
            });
      }
    }
  }

  private void transactional(List<Place> places, double rate) {
    long start = System.nanoTime();
    KafkaProducer<byte[], byte[]> producer = null;
    long count = 0;
    try {
      for (long transaction = 0; due(start, count, rate); transaction++) {
        if (producer == null) {
          producer = Records.producer(bootstrap, "zstd", "live-" + System.nanoTime());
        }
        boolean abort = transaction % 5 == 4;
        try {
          producer = transaction(producer, places, count, abort);
        } catch (KafkaException e) {
          // Whether it was committed is unknown; the next one gets a new producer.
          fail(e);
          producer.close(Duration.ZERO);
          producer = null;
        }
        count += TRANSACTION;
      }
    } finally {
      if (producer != null) {
        producer.close();
      }
    }
  }

  private KafkaProducer<byte[], byte[]> transaction(
      KafkaProducer<byte[], byte[]> producer, List<Place> places, long count, boolean abort) {
    Map<RecordMetadata, Long> sent = new HashMap<>();
    producer.beginTransaction();
    for (long i = count; i < count + TRANSACTION; i++) {
      Place place = places.get((int) (i % places.size()));
      long now = System.currentTimeMillis();
      var record =
          abort ? Records.aborted(place.topic, place.partition, i, now, valueBytes) : record(place);
      Long number = Records.number(record.value(), record.headers());
      producer.send(
          record,
          (metadata, error) -> {
            if (error == null) {
              synchronized (sent) {
                sent.put(metadata, number);
              }
            }
          });
    }
    producer.flush();
    if (abort) {
      producer.abortTransaction();
    } else {
      producer.commitTransaction();
      sent.forEach(this::acknowledge);
    }
    return producer;
  }

  private void follow(String group, List<String> topics) {
    Map<String, String> configs = Map.of("group.id", group, "auto.offset.reset", "earliest");
    try (var consumer = Reader.consumer(bootstrap, configs)) {
      consumer.subscribe(topics);
      boolean last = false;
      while (!last) {
        // One more round after the producers: then all of theirs that is readable has been offered.
        last = !producing;
        var records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
          continue;
        }
        last = false;
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition partition : records.partitions()) {
          offsets.put(partition, new OffsetAndMetadata(consumer.position(partition)));
        }
        try {
          consumer.commitSync(offsets);
        } catch (KafkaException e) {
          fail(e);
          continue;
        }
        offsets.forEach(
            (partition, offset) -> {
              committed.incrementAndGet();
              write("committed", partition.topic(), partition.partition(), null, offset.offset());
            });
      }
    }
  }

  private void acknowledge(RecordMetadata metadata, Long number) {
    acknowledged.incrementAndGet();
    write("acknowledged", metadata.topic(), metadata.partition(), number, metadata.offset());
  }

  private void write(String event, String topic, int partition, Long number, long offset) {
    var node = Json.MAPPER.createObjectNode();
    node.put("event", event).put("topic", topic).put("partition", partition).put("offset", offset);
    if (number != null) {
      node.put("number", number);
    }
    line(node.put("at", System.currentTimeMillis()).toString());
  }

  private void fail(Exception error) {
    failed.incrementAndGet();
    line(Json.MAPPER.createObjectNode().put("event", "failed").put("error", error.toString()).toString());
  }

  private void line(String line) {
    try {
      synchronized (out) {
        out.write(line + "\n");
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
