import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The contents of numbered records, and the digests by which they are told apart.
 *
 * <p>The id of a record, {@code topic/partition/number}, stands at the head of its value, or in a header
 * {@code id} where the value is null or empty. What a record looks like follows from its number alone.
 */
final class Records {
  static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
  static final long THREE_DAYS_MS = 3L * 24 * 3600 * 1000;

  private static final byte[] EMPTY = {};
  private static final int LARGE_BYTES = 20_000;

  private Records() {}

  static KafkaProducer<byte[], byte[]> producer(String bootstrap, String codec, String transactionalId) {
    Properties properties = new Properties();
    properties.putAll(Shell.client(bootstrap));
    properties.put("acks", "all");
    properties.put("compression.type", codec);
    properties.put("linger.ms", "5");
    // A broker takes any first sequence of a producer that it does not know. With several requests under
    // way to a topic that is a moment old, it may refuse the first one (it leads nothing yet) and take the
    // second: a record is then out of its place, and the client retries the first one until it gives up.
    properties.put("max.in.flight.requests.per.connection", "1");
    properties.put("max.block.ms", "120000");
    if (transactionalId != null) {
      properties.put("transactional.id", transactionalId);
    }
    var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    if (transactionalId != null) {
      producer.initTransactions();
    }
    return producer;
  }

  /** A record of a topic that is not compacted. */
  static ProducerRecord<byte[], byte[]> plain(
      String topic, int partition, long number, long timestamp, int valueBytes) {
    byte[] key = number % 7 == 0 ? null : number % 7 == 1 ? EMPTY : text("key-" + number % 97);
    String id = topic + "/" + partition + "/" + number;
    byte[] value = number % 11 == 0 ? null : number % 11 == 1 ? EMPTY : value(id, number, valueBytes);
    RecordHeaders headers = new RecordHeaders();
    if (number % 3 == 1) {
      // A repeated key, with another one between: both their number and their order matter.
      headers.add("a", text("1")).add("b", null).add("a", text("2"));
    } else if (number % 3 == 2) {
      headers.add("z", EMPTY).add("a", text(Long.toString(number)));
    }
    if (value == null || value.length == 0) {
      headers.add("id", text(id));
    }
    return new ProducerRecord<>(topic, partition, timestamp, key, value, headers);
  }

  /** A record of a compacted topic: one of {@code keys} keys, scattered; some are tombstones. */
  static ProducerRecord<byte[], byte[]> compacted(
      String topic, int partition, long number, long keys, long timestamp, int valueBytes) {
    byte[] key = text("key-" + Math.floorMod(mix(number), keys));
    String id = topic + "/" + partition + "/" + number;
    RecordHeaders headers = new RecordHeaders();
    byte[] value = null;
    if (number % 101 == 100) {
      headers.add("id", text(id));
    } else {
      value = value(id, number, valueBytes);
    }
    return new ProducerRecord<>(topic, partition, timestamp, key, value, headers);
  }

  /** A record that is never to be seen: it has no number. */
  static ProducerRecord<byte[], byte[]> aborted(
      String topic, int partition, long number, long timestamp, int valueBytes) {
    byte[] value = value(topic + "/" + partition + "/aborted-" + number, number, valueBytes);
    return new ProducerRecord<>(topic, partition, timestamp, text("aborted"), value);
  }

  /** The number of a record, or null where it has none. */
  static Long number(byte[] value, Headers headers) {
    byte[] id = value;
    if (value == null || value.length == 0) {
      Header header = headers.lastHeader("id");
      id = header == null ? null : header.value();
    }
    if (id == null) {
      return null;
    }
    int end = 0;
    int slash = -1;
    while (end < id.length && end < 400 && id[end] != '|') {
      if (id[end] == '/') {
        slash = end;
      }
      end++;
    }
    if (slash < 0 || slash + 1 == end || end - slash > 19) {
      return null;
    }
    long number = 0;
    for (int i = slash + 1; i < end; i++) {
      if (id[i] < '0' || id[i] > '9') {
        return null;
      }
      number = number * 10 + id[i] - '0';
    }
    return number;
  }

  /** FNV-1a in 64 bits: no collision among a million records is to be expected by chance. */
  static long digest(long digest, byte[] bytes) {
    for (byte b : bytes) {
      digest = (digest ^ (b & 0xff)) * 0x100000001b3L;
    }
    return digest;
  }

  static long digest(byte[] bytes) {
    return digest(0xcbf29ce484222325L, bytes);
  }

  /** Order, repeats, and null against empty all change it; no headers are 0. */
  static long digest(Headers headers) {
    long digest = 0;
    for (Header header : headers) {
      digest = digest(digest * 31 + 1, text(header.key()));
      byte[] value = header.value();
      digest = value == null ? digest * 31 + 2 : digest(digest * 31 + 3, value);
    }
    return digest;
  }

  private static byte[] value(String id, long number, int bytes) {
    int length = number % 997 == 996 ? LARGE_BYTES : bytes;
    StringBuilder text = new StringBuilder(Math.max(length, id.length() + 1)).append(id).append('|');
    // Hexadecimal of noise: compresses by half, as text does.
    for (long seed = number; text.length() < length; seed++) {
      text.append(Long.toHexString(mix(seed)));
    }
    return text(text.toString());
  }

  private static long mix(long n) {
    n = (n + 0x9e3779b97f4a7c15L) * 0xbf58476d1ce4e5b9L;
    n = (n ^ (n >>> 27)) * 0x94d049bb133111ebL;
    return n ^ (n >>> 31);
  }

  private static byte[] text(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
