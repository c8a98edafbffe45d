import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.MemoryRecords.RecordFilter.BatchRetention;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Writes java.txt: batches made by Kafka's own code, and what that code reads from them.
 *
 *   java -cp 'kafka-clients-3.9.1.jar:...' Golden.java > java.txt
 *
 * (with the compression libraries and slf4j that kafka-clients depends on; Kafka 4 no longer has
 * these classes in this package). Lines:
 *
 *   case NAME
 *   bytes HEX
 *   batch MAGIC BASE NEXT MAXTIMESTAMP CONTROL TRANSACTIONAL TIMESTAMPTYPE HORIZON CODEC PID EPOCH SEQUENCE
 *   record OFFSET TIMESTAMP KEY VALUE [HEADERKEY=HEADERVALUE ...]
 *
 * Bytes are hexadecimal, "-" when empty, "null", or "NxHEX" for N repetitions.
 */
public class Golden {
  static final Header[] NO_HEADERS = new Header[0];
  static final byte[] NULL = null;

  static String hex(byte[] bytes) {
    if (bytes == null) return "null";
    if (bytes.length == 0) return "-";
    if (bytes.length <= 4096) return HexFormat.of().formatHex(bytes);
    return (bytes.length / 8) + "x" + HexFormat.of().formatHex(Arrays.copyOf(bytes, 8));
  }

  static byte[] bytes(ByteBuffer buffer) {
    if (buffer == null) return null;
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return bytes;
  }

  static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static Header[] headers(Object... pairs) {
    Header[] headers = new Header[pairs.length / 2];
    for (int i = 0; i < headers.length; i++)
      headers[i] = new RecordHeader((String) pairs[2 * i], (byte[]) pairs[2 * i + 1]);
    return headers;
  }

  static void dump(String name, ByteBuffer buffer) {
    System.out.println("case " + name);
    System.out.println("bytes " + HexFormat.of().formatHex(bytes(buffer)));
    for (RecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
      System.out.println("batch " + batch.magic() + " " + batch.baseOffset() + " " + batch.nextOffset()
          + " " + batch.maxTimestamp() + " " + batch.isControlBatch() + " " + batch.isTransactional()
          + " " + batch.timestampType().name + " " + batch.deleteHorizonMs().isPresent()
          + " " + batch.compressionType().name + " " + batch.producerId() + " " + batch.producerEpoch()
          + " " + batch.baseSequence());
      for (org.apache.kafka.common.record.Record record : batch) {
        StringBuilder line = new StringBuilder("record " + record.offset() + " " + record.timestamp()
            + " " + hex(bytes(record.key())) + " " + hex(bytes(record.value())));
        for (Header header : record.headers())
          line.append(" ").append(hex(utf8(header.key()))).append("=").append(hex(header.value()));
        System.out.println(line);
      }
    }
  }

  static ByteBuffer build(byte magic, Compression codec, TimestampType type, boolean large) {
    long appendTime = type == TimestampType.LOG_APPEND_TIME ? 1700000099999L : -1L;
    MemoryRecordsBuilder builder =
        MemoryRecords.builder(ByteBuffer.allocate(1 << 20), magic, codec, type, 1000L, appendTime);
    boolean headers = magic == 2;
    if (large) {
      builder.append(1700000000000L, utf8("k"), utf8("twinlog ".repeat(20000)));
      builder.append(1700000000001L, utf8("l"), utf8("abcdefgh".repeat(3000)));
    } else {
      builder.append(1700000000000L, utf8("key"), utf8("value"),
          headers ? headers("a", utf8("1"), "a", utf8("2"), "", utf8(""), "n", null) : NO_HEADERS);
      builder.append(1699999999000L, NULL, utf8("null key, earlier"), NO_HEADERS);
      builder.append(1700000001234L, utf8("tombstone"), NULL, NO_HEADERS);
      builder.append(1700000001234L, utf8(""), utf8(""),
          headers ? headers("\u00e9", utf8("x")) : NO_HEADERS);
      builder.append(1700000001235L, NULL, NULL, NO_HEADERS);
    }
    return builder.build().buffer().duplicate();
  }

  /** What the log cleaner does, keeping the records at some offsets. */
  static ByteBuffer clean(ByteBuffer log, long now, long deleteRetention, BatchRetention retention, Long... keep) {
    Set<Long> kept = Set.of(keep);
    MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(now, deleteRetention) {
      protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
        return new BatchRetentionResult(retention, true);
      }
      protected boolean shouldRetainRecord(RecordBatch batch, org.apache.kafka.common.record.Record record) {
        return kept.contains(record.offset());
      }
    };
    ByteBuffer cleaned = MemoryRecords.readableRecords(log).filterTo(new TopicPartition("t", 0), filter,
        ByteBuffer.allocate(1 << 20), Integer.MAX_VALUE, BufferSupplier.NO_CACHING).outputBuffer();
    cleaned.flip();
    return cleaned;
  }

  static ByteBuffer marker(ControlRecordType type) {
    return MemoryRecords.withEndTransactionMarker(52L, 1700000000002L, 3, 4242L, (short) 7,
        new EndTransactionMarker(type, 5)).buffer();
  }

  public static void main(String[] args) {
    System.out.println("# Written by Golden.java with Kafka 3.9.1; the lines are explained there.");
    Map<String, Compression> codecs = new LinkedHashMap<>();
    codecs.put("none", Compression.NONE);
    codecs.put("gzip", Compression.gzip().build());
    codecs.put("snappy", Compression.snappy().build());
    codecs.put("lz4", Compression.lz4().build());
    codecs.put("zstd", Compression.zstd().build());
    TimestampType[] types =
        {TimestampType.NO_TIMESTAMP_TYPE, TimestampType.CREATE_TIME, TimestampType.CREATE_TIME};

    for (byte magic = 0; magic <= 2; magic++)
      for (String codec : codecs.keySet()) {
        if (magic < 2 && codec.equals("zstd")) continue;
        String name = "format " + magic + " " + codec;
        dump(name, build(magic, codecs.get(codec), types[magic], false));
        if (!codec.equals("none"))
          dump(name + " large", build(magic, codecs.get(codec), types[magic], true));
        if (magic > 0 && (codec.equals("none") || codec.equals("lz4")))
          dump(name + " append time", build(magic, codecs.get(codec), TimestampType.LOG_APPEND_TIME, false));
      }
    for (byte magic = 0; magic <= 2; magic++)
      for (String codec : List.of("none", "lz4"))
        dump("compacted format " + magic + " " + codec,
            clean(build(magic, codecs.get(codec), types[magic], false), 0, 0, BatchRetention.DELETE_EMPTY, 1001L, 1003L));
    dump("delete horizon",
        clean(build((byte) 2, codecs.get("lz4"), TimestampType.CREATE_TIME, false), 1700000050000L, 86400000L,
            BatchRetention.DELETE_EMPTY, 1000L, 1001L, 1002L, 1003L, 1004L));
    dump("delete horizon with holes",
        clean(build((byte) 2, codecs.get("none"), TimestampType.CREATE_TIME, false), 1700000050000L, 86400000L,
            BatchRetention.DELETE_EMPTY, 1001L, 1002L));

    MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2, Compression.NONE,
        TimestampType.CREATE_TIME, 50L, -1L, 4242L, (short) 7, 2147483647, true, 3);
    builder.append(1700000000000L, utf8("k"), utf8("in a transaction"));
    builder.append(1700000000001L, utf8("k"), utf8("at the wrap of the sequence"));
    ByteBuffer transactional = builder.build().buffer();
    dump("transactional", transactional.duplicate());
    dump("emptied by the cleaner", clean(transactional.duplicate(), 0, 0, BatchRetention.RETAIN_EMPTY));
    dump("commit marker", marker(ControlRecordType.COMMIT));
    dump("abort marker", marker(ControlRecordType.ABORT));
  }
}
