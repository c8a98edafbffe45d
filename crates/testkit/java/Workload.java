import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Fills topics with the kinds of records that break mirrors. */
final class Workload {
  /** Where the log of a trimmed topic starts. */
  static final long TRIMMED_AT = 700;

  private static final long LIMIT_MS = 120_000;

  /** The next number of each partition, so that a live workload goes on where the load ended. */
  private static final Map<String, AtomicLong> NUMBERS = new ConcurrentHashMap<>();

  /** Keys of each compacted topic, for the same reason. */
  private static final Map<String, Long> KEYS = new ConcurrentHashMap<>();

  private final Admin admin;
  private final String bootstrap;
  private final int valueBytes;
  private final List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
  private final AtomicReference<Exception> failure = new AtomicReference<>();
  private long records;
  private long aborted;

  private Workload(Admin admin, String bootstrap, int valueBytes) {
    this.admin = admin;
    this.bootstrap = bootstrap;
    this.valueBytes = valueBytes;
  }

  static AtomicLong numbers(String bootstrap, String topic, int partition) {
    return NUMBERS.computeIfAbsent(bootstrap + " " + topic + " " + partition, any -> new AtomicLong());
  }

  /** The next record of a partition, as {@code kind} wants it. */
  static ProducerRecord<byte[], byte[]> record(
      String bootstrap, String kind, String topic, int partition, long number, long timestamp, int valueBytes) {
    if (kind.startsWith("compacted")) {
      long keys = KEYS.getOrDefault(bootstrap + " " + topic, 100L);
      return Records.compacted(topic, partition, number, keys, timestamp, valueBytes);
    }
    return Records.plain(topic, partition, number, timestamp, valueBytes);
  }

  static Map<String, Object> load(Admin admin, JsonNode request) throws Exception {
    String bootstrap = request.get("bootstrap").asText();
    Workload workload = new Workload(admin, bootstrap, request.get("value_bytes").asInt());
    Map<String, Long> millis = new TreeMap<>();
    try {
      for (String codec : Records.CODECS) {
        workload.producers.add(Records.producer(bootstrap, codec, null));
      }
      for (JsonNode topic : request.get("topics")) {
        long start = System.currentTimeMillis();
        String name = topic.get("name").asText();
        short replication = (short) request.get("replication").asInt();
        workload.topic(name, topic.get("kind").asText(), topic.get("partitions").asInt(), replication,
            topic.get("records").asLong());
        millis.put(name, System.currentTimeMillis() - start);
      }
    } finally {
      workload.producers.forEach(KafkaProducer::close);
    }
    return Map.of("records", workload.records, "aborted", workload.aborted, "millis", millis);
  }

  private void topic(String name, String kind, int partitions, short replication, long total)
      throws Exception {
    long each = (total + partitions - 1) / partitions;
    Map<String, String> configs = new HashMap<>();
    // Segments roll by the timestamps of records, which rise by one per record: about ten of them.
    long segmentMs = Math.max(10, each / 10);
    if (kind.startsWith("compacted")) {
      configs.put("cleanup.policy", "compact");
      configs.put("segment.ms", Long.toString(segmentMs));
      configs.put("min.cleanable.dirty.ratio", "0.001");
    }
    Shell.create(admin, new NewTopic(name, partitions, replication).configs(configs));
    switch (kind) {
      case "plain" -> plain(name, partitions, each);
      case "trimmed" -> {
        plain(name, partitions, each);
        trim(name, partitions);
      }
      case "transactional" -> transactional(name, partitions, each, Math.max(10, each / 80), 5);
      case "tenth-aborted" -> transactional(name, partitions, each, Math.min(1_000, Math.max(10, each / 80)), 10);
      case "compacted" -> compacted(name, partitions, each, Math.max(1, each / 20));
      case "compacted-to-the-end" -> compacted(name, partitions, each, Math.min(10, each));
      default -> throw new IllegalArgumentException("no such kind of topic: " + kind);
    }
    records += each * partitions;
  }

  private static long timestamp(long number, long each, long now) {
    return number < each / 2 ? now - Records.THREE_DAYS_MS + number : now - 2 * each - 1000 + number;
  }

  private void send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record) {
    producer.send(
        record,
        (metadata, error) -> {
          if (error != null) {
            failure.compareAndSet(null, error);
          }
        });
  }

  private void flush(KafkaProducer<byte[], byte[]> producer) throws Exception {
    producer.flush();
    if (failure.get() != null) {
      throw failure.get();
    }
  }

  private void plain(String topic, int partitions, long each) throws Exception {
    long now = System.currentTimeMillis();
    long chunk = Math.max(20, each / 20);
    int turn = 0;
    for (long from = 0; from < each; from += chunk) {
      var producer = producers.get(turn++ % producers.size());
      for (int partition = 0; partition < partitions; partition++) {
        AtomicLong numbers = numbers(bootstrap, topic, partition);
        for (long i = from; i < Math.min(from + chunk, each); i++) {
          long number = numbers.getAndIncrement();
          send(producer, Records.plain(topic, partition, number, timestamp(number, each, now), valueBytes));
        }
      }
      // Another producer goes on with the next codec: what this one has must be there first.
      flush(producer);
    }
  }

  private void trim(String topic, int partitions) throws Exception {
    Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
    for (int partition = 0; partition < partitions; partition++) {
      before.put(new TopicPartition(topic, partition), RecordsToDelete.beforeOffset(TRIMMED_AT));
    }
    admin.deleteRecords(before).all().get();
  }

  /** Transactions of {@code size} records, of which one in {@code turn} is aborted. */
  private void transactional(String topic, int partitions, long each, long size, int turn)
      throws Exception {
    List<KafkaProducer<byte[], byte[]>> transactional = new ArrayList<>();
    try {
      for (String codec : Records.CODECS) {
        transactional.add(Records.producer(bootstrap, codec, "load-" + topic + "-" + codec));
      }
      long now = System.currentTimeMillis();
      int codecs = transactional.size();
      int transaction = 0;
      for (long from = 0; from < each; transaction++) {
        // Of those that are aborted, each codec has its turn.
        boolean abort = transaction % turn == turn - 1;
        var producer = transactional.get((abort ? transaction / turn : transaction) % codecs);
        long to = Math.min(from + size, each);
        producer.beginTransaction();
        for (int partition = 0; partition < partitions; partition++) {
          AtomicLong numbers = numbers(bootstrap, topic, partition);
          for (long i = from; i < to; i++) {
            long number = abort ? i : numbers.getAndIncrement();
            long timestamp = timestamp(number, each, now);
            send(
                producer,
                abort
                    ? Records.aborted(topic, partition, number, timestamp, valueBytes)
                    : Records.plain(topic, partition, number, timestamp, valueBytes));
            aborted += abort ? 1 : 0;
          }
        }
        // What is aborted must have reached the log, or there is nothing to skip.
        flush(producer);
        if (abort) {
          producer.abortTransaction();
        } else {
          producer.commitTransaction();
          from = to;
        }
      }
    } finally {
      transactional.forEach(KafkaProducer::close);
    }
  }

  /** All but the last {@code rest} records of each partition are cleaned. */
  private void compacted(String topic, int partitions, long each, long rest) throws Exception {
    long now = System.currentTimeMillis();
    long keys = Math.max(20, each / 5);
    KEYS.put(bootstrap + " " + topic, keys);
    long cleaned = each - rest;
    long chunk = Math.max(20, each / 20);
    int turn = 0;
    for (long from = 0; from < cleaned; from += chunk) {
      var producer = producers.get(turn++ % producers.size());
      for (int partition = 0; partition < partitions; partition++) {
        AtomicLong numbers = numbers(bootstrap, topic, partition);
        for (long i = from; i < Math.min(from + chunk, cleaned); i++) {
          long number = numbers.getAndIncrement();
          long timestamp = timestamp(number, each, now);
          send(producer, Records.compacted(topic, partition, number, keys, timestamp, valueBytes));
        }
      }
      flush(producer);
    }
    // The first record of the rest is late enough to roll the segment, and the cleaner touches all but
    // the newest segment; so it is done when no key repeats before that record.
    tail(topic, partitions, keys, now, cleaned, cleaned + 1);
    awaitCleaner(topic, cleaned);
    // From here on the cleaner leaves this topic alone, so that what is read twice is the same twice.
    var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    admin.incrementalAlterConfigs(
            Map.of(
                resource,
                List.of(
                    new AlterConfigOp(
                        new ConfigEntry("min.cleanable.dirty.ratio", "1.0"), AlterConfigOp.OpType.SET),
                    new AlterConfigOp(new ConfigEntry("segment.ms", ""), AlterConfigOp.OpType.DELETE))))
        .all()
        .get();
    tail(topic, partitions, keys, now, cleaned + 1, each);
  }

  /** Records of one timestamp, which cannot roll a segment among themselves. */
  private void tail(String topic, int partitions, long keys, long timestamp, long from, long to)
      throws Exception {
    var producer = producers.get(0);
    for (int partition = 0; partition < partitions; partition++) {
      AtomicLong numbers = numbers(bootstrap, topic, partition);
      for (long i = from; i < to; i++) {
        long number = numbers.getAndIncrement();
        send(producer, Records.compacted(topic, partition, number, keys, timestamp, valueBytes));
      }
    }
    flush(producer);
  }

  /** Waits until no key repeats among the offsets before {@code before}, in any partition. */
  private void awaitCleaner(String topic, long before) throws IOException, InterruptedException {
    long limit = System.currentTimeMillis() + LIMIT_MS;
    while (repeats(topic, before)) {
      if (System.currentTimeMillis() > limit) {
        throw new IllegalStateException("the cleaner has not cleaned " + topic + " in " + LIMIT_MS + " ms");
      }
      Thread.sleep(100);
    }
  }

  private boolean repeats(String topic, long before) throws IOException {
    boolean[] repeats = {false};
    Map<TopicPartition, Set<Long>> seen = new HashMap<>();
    Reader.Sink sink =
        (partition, some) -> {
          Set<Long> keys = seen.computeIfAbsent(partition, any -> new HashSet<>());
          for (var record : some) {
            if (record.offset() < before && !keys.add(Records.digest(record.key()))) {
              repeats[0] = true;
            }
          }
        };
    Reader.read(bootstrap, List.of(topic), "read_committed", (partition, start, end) -> {}, sink);
    return repeats[0];
  }
}
