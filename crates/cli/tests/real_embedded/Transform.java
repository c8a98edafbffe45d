import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Reads, writes and commits in transactions: {@code BOOTSTRAP INPUT OUTPUT GROUP COUNT}. Every third
 * transaction is aborted, and what it read is read again. Prints how many were committed and aborted.
 */
final class Transform {
  private static final long LIMIT_MS = 90_000;

  public static void main(String[] args) {
    String input = args[1];
    String output = args[2];
    int count = Integer.parseInt(args[4]);
    Map<String, Object> reading = new HashMap<>();
    reading.put("bootstrap.servers", args[0]);
    reading.put("group.id", args[3]);
    reading.put("enable.auto.commit", "false");
    reading.put("auto.offset.reset", "earliest");
    reading.put("isolation.level", "read_committed");
    reading.put("max.poll.records", "10");
    Map<String, Object> writing = new HashMap<>();
    writing.put("bootstrap.servers", args[0]);
    writing.put("transactional.id", args[3] + "-id");
    long end = System.currentTimeMillis() + LIMIT_MS;
    int done = 0;
    int committed = 0;
    int aborted = 0;
    try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
      producer.initTransactions();
      consumer.subscribe(List.of(input));
      for (int turn = 1; done < count; ) {
        if (System.currentTimeMillis() > end) {
          throw new IllegalStateException("only " + done + " records in " + LIMIT_MS + " ms");
        }
        var records = consumer.poll(Duration.ofSeconds(1));
        if (records.isEmpty()) {
          continue;
        }
        Map<TopicPartition, OffsetAndMetadata> first = new HashMap<>();
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<String, String> record : records) {
          var partition = new TopicPartition(record.topic(), record.partition());
          first.putIfAbsent(partition, new OffsetAndMetadata(record.offset()));
          next.put(partition, new OffsetAndMetadata(record.offset() + 1));
          producer.send(new ProducerRecord<>(output, record.partition(), null, "seen " + record.value()));
        }
        producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
        if (turn++ % 3 == 0) {
          producer.abortTransaction();
          first.forEach((partition, offset) -> consumer.seek(partition, offset));
          aborted++;
        } else {
          producer.commitTransaction();
          done += records.count();
          committed++;
        }
      }
    }
    System.out.println(committed + " " + aborted);
  }
}
