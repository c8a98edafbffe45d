import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Commands on standard input, one JSON object per line: {@code {"id": 1, "do": "topics", ..}}. Answers on
 * standard output, in any order: {@code {"id": 1, "ok": ..}} or {@code {"id": 1, "error": ".."}}. Ends with
 * its input.
 */
final class Shell {
  private static final long LIMIT_MS = 60_000;

  private static final ListOffsetsOptions SOON = new ListOffsetsOptions().timeoutMs(5_000);

  /** What is printed besides answers: by tools (one at a time), or by accident. */
  private static final Printed PRINTED = new Printed(System.err);

  /** What clients of a cluster need beyond its address, by its address. */
  private static final Map<String, Map<String, String>> CLIENTS = new ConcurrentHashMap<>();

  private final PrintStream answers;
  private final Map<String, Admin> admins = new ConcurrentHashMap<>();
  private final Map<Long, Live> lives = new ConcurrentHashMap<>();
  private final AtomicLong nextLive = new AtomicLong();

  private Shell(PrintStream answers) {
    this.answers = answers;
  }

  public static void main(String[] args) throws IOException {
    Shell shell = new Shell(System.out);
    // Scala's console keeps the stream that it finds first, so there is one for good, which is redirected.
    System.setOut(new PrintStream(PRINTED, true, StandardCharsets.UTF_8));
    Exit.setExitProcedure(
        (status, message) -> {
          PRINTED.exited(status);
          throw new Exited(message);
        });
    Exit.setShutdownHookAdder((name, hook) -> { });
    var threads = Executors.newCachedThreadPool();
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode request = Json.MAPPER.readTree(line);
      threads.execute(() -> shell.answer(request));
    }
    Runtime.getRuntime().halt(0);
  }

  private void answer(JsonNode request) {
    ObjectNode answer = Json.MAPPER.createObjectNode();
    answer.set("id", request.get("id"));
    try {
      answer.set("ok", Json.MAPPER.valueToTree(run(request)));
    } catch (Throwable e) {
      Throwable cause = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
      cause.printStackTrace();
      answer.put("error", cause.getClass().getName() + ": " + cause.getMessage());
    }
    synchronized (answers) {
      answers.println(answer);
      answers.flush();
    }
  }

  private Object run(JsonNode request) throws Exception {
    String command = request.get("do").asText();
    switch (command) {
      case "tool":
        return tool(request.get("class").asText(), Json.list(request.get("args")));
      case "requests":
        return Requests.of(request.get("pid").asLong());
      case "live-start": {
        long number = nextLive.incrementAndGet();
        lives.put(number, Live.start(request));
        return number;
      }
      case "live-totals":
        return lives.get(request.get("live").asLong()).totals();
      case "live-stop":
        return lives.remove(request.get("live").asLong()).stop();
      default:
    }
    String bootstrap = request.get("bootstrap").asText();
    if (command.equals("client")) {
      CLIENTS.put(bootstrap, Json.strings(request.get("configs")));
      return null;
    }
    Admin admin = admins.computeIfAbsent(bootstrap, Shell::admin);
    String topic = text(request, "topic");
    String group = text(request, "group");
    switch (command) {
      case "create-topic": {
        int partitions = request.get("partitions").asInt();
        short replication = (short) request.get("replication").asInt();
        var configs = Json.strings(request.get("configs"));
        create(admin, new NewTopic(topic, partitions, replication).configs(configs));
        return null;
      }
      case "add-partitions": {
        int total = request.get("total").asInt();
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(total))).all().get();
        awaitLeaders(admin, topic, total);
        return null;
      }
      case "delete-topic":
        admin.deleteTopics(List.of(topic)).all().get();
        await("end of topic " + topic, () -> !admin.listTopics().names().get().contains(topic));
        return null;
      case "configure-topic":
        configure(admin, topic, Json.strings(request.get("configs")));
        return null;
      case "topic-configs":
        return configs(admin, topic);
      case "topics":
        return topics(admin);
      case "start-offsets":
        return offsets(admin, topic, OffsetSpec.earliest());
      case "end-offsets":
        return offsets(admin, topic, OffsetSpec.latest());
      case "delete-records": {
        var partition = new TopicPartition(topic, request.get("partition").asInt());
        var before = RecordsToDelete.beforeOffset(request.get("before").asLong());
        admin.deleteRecords(Map.of(partition, before)).all().get();
        return null;
      }
      case "produce":
        return produce(bootstrap, topic, request.get("records"), Json.strings(request.get("configs")));
      case "commit":
        commit(admin, bootstrap, group, request);
        return null;
      case "committed":
        return committed(admin, group);
      case "groups": {
        Map<String, String> groups = new TreeMap<>();
        for (var listing : admin.listConsumerGroups().all().get()) {
          groups.put(listing.groupId(), listing.state().map(Object::toString).orElse("Unknown"));
        }
        return groups;
      }
      case "delete-group":
        admin.deleteConsumerGroups(List.of(group)).all().get();
        return null;
      case "next-records": {
        var partitions = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        return Reader.next(bootstrap, group, new HashSet<>(partitions.keySet()));
      }
      case "dump": {
        Path file = Path.of(request.get("file").asText());
        return Reader.dump(
            bootstrap, Json.list(request.get("topics")), request.get("isolation").asText(), file);
      }
      case "load":
        return Workload.load(admin, request);
      case "mirror-probe": {
        Map<String, Object> config = new HashMap<>(client(bootstrap));
        config.putAll(Json.strings(request.get("configs")));
        return MirrorProbe.probe(text(request, "alias"), Json.list(request.get("groups")), config);
      }
      case "sync-store-probe":
        return SyncStoreProbe.probe(Json.strings(request.get("configs")), request.get("asked"));
      default:
        throw new IllegalArgumentException("no such command: " + command);
    }
  }

  /** What a client of this cluster is configured with. */
  static Map<String, String> client(String bootstrap) {
    Map<String, String> configs = new HashMap<>(CLIENTS.getOrDefault(bootstrap, Map.of()));
    configs.put("bootstrap.servers", bootstrap);
    return configs;
  }

  private static String text(JsonNode request, String name) {
    return request.hasNonNull(name) ? request.get(name).asText() : null;
  }

  private static Admin admin(String bootstrap) {
    return Admin.create(new HashMap<String, Object>(client(bootstrap)));
  }

  interface Condition {
    boolean holds() throws Exception;
  }

  private static void await(String what, Condition condition) throws Exception {
    long limit = System.currentTimeMillis() + LIMIT_MS;
    while (!condition.holds()) {
      if (System.currentTimeMillis() > limit) {
        throw new IllegalStateException("no " + what + " within " + LIMIT_MS + " ms");
      }
      Thread.sleep(20);
    }
  }

  static void create(Admin admin, NewTopic topic) throws Exception {
    admin.createTopics(List.of(topic)).all().get();
    awaitLeaders(admin, topic.name(), topic.numPartitions());
  }

  private static void awaitLeaders(Admin admin, String topic, int partitions) throws Exception {
    await(
        "leaders of " + topic,
        () -> {
          try {
            var description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            List<TopicPartitionInfo> known = description.partitions();
            // Two ways of saying that there is none.
            return known.size() >= partitions
                && known.stream().allMatch(info -> info.leader() != null && !info.leader().isEmpty());
          } catch (ExecutionException e) {
            // The broker that was asked has not heard of the topic yet.
            if (e.getCause() instanceof UnknownTopicOrPartitionException) {
              return false;
            }
            throw e;
          }
        });
  }

  private static void configure(Admin admin, String topic, Map<String, String> configs) throws Exception {
    Collection<AlterConfigOp> operations = new ArrayList<>();
    configs.forEach(
        (key, value) ->
            operations.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
    var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    admin.incrementalAlterConfigs(Map.of(resource, operations)).all().get();
    await("configuration of " + topic, () -> configs(admin, topic).entrySet().containsAll(configs.entrySet()));
  }

  private static Map<String, String> configs(Admin admin, String topic) throws Exception {
    var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    Map<String, String> configs = new TreeMap<>();
    for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
      if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) {
        configs.put(entry.name(), entry.value());
      }
    }
    return configs;
  }

  private static Map<String, Integer> topics(Admin admin) throws Exception {
    Set<String> names = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get();
    Map<String, Integer> topics = new TreeMap<>();
    for (var description : admin.describeTopics(names).topicNameValues().entrySet()) {
      try {
        topics.put(description.getKey(), description.getValue().get().partitions().size());
      } catch (ExecutionException e) {
        // Deleted between the two questions: then it is not there.
        if (!(e.getCause() instanceof UnknownTopicOrPartitionException)) {
          throw e;
        }
      }
    }
    return topics;
  }

  private static Map<Integer, Long> offsets(Admin admin, String topic, OffsetSpec spec) throws Exception {
    var description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    Map<TopicPartition, OffsetSpec> question = new HashMap<>();
    for (TopicPartitionInfo info : description.partitions()) {
      question.put(new TopicPartition(topic, info.partition()), spec);
    }
    Map<Integer, Long> offsets = new TreeMap<>();
    await(
        "offsets of " + topic,
        () -> {
          try {
            admin.listOffsets(question, SOON).all().get()
                .forEach((tp, info) -> offsets.put(tp.partition(), info.offset()));
            return true;
          } catch (ExecutionException e) {
            // A question to a leader that has died waits until this broker is back, although another one
            // leads by now; asked anew, it goes there.
            if (e.getCause() instanceof org.apache.kafka.common.errors.TimeoutException) {
              return false;
            }
            throw e;
          }
        });
    return offsets;
  }

  private static List<Long> produce(
      String bootstrap, String topic, JsonNode records, Map<String, String> configs) throws Exception {
    Map<String, Object> properties = new HashMap<>(client(bootstrap));
    // As in Records: the topic may be a moment old.
    properties.put("max.in.flight.requests.per.connection", "1");
    properties.putAll(configs);
    boolean transactional = configs.containsKey("transactional.id");
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
      if (transactional) {
        producer.initTransactions();
        producer.beginTransaction();
      }
      for (JsonNode record : records) {
        String key = record.get(1).isNull() ? null : record.get(1).asText();
        String value = record.get(2).isNull() ? null : record.get(2).asText();
        sent.add(producer.send(new ProducerRecord<>(topic, record.get(0).asInt(), key, value)));
      }
      if (transactional) {
        producer.commitTransaction();
      }
    }
    List<Long> offsets = new ArrayList<>();
    for (var one : sent) {
      offsets.add(one.get(LIMIT_MS, TimeUnit.MILLISECONDS).offset());
    }
    return offsets;
  }

  private static void commit(Admin admin, String bootstrap, String group, JsonNode request) throws Exception {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    Set<String> topics = new HashSet<>();
    request.get("offsets").fields().forEachRemaining(
        topic -> {
          topics.add(topic.getKey());
          topic.getValue().fields().forEachRemaining(
              partition ->
                  offsets.put(
                      new TopicPartition(topic.getKey(), Integer.parseInt(partition.getKey())),
                      new OffsetAndMetadata(partition.getValue().asLong(), Optional.empty(), "")));
        });
    if (!request.get("member").asBoolean()) {
      admin.alterConsumerGroupOffsets(group, offsets).all().get();
      return;
    }
    var configs =
        Map.of("group.id", group, "auto.offset.reset", "earliest", ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "1");
    try (var consumer = Reader.consumer(bootstrap, configs)) {
      consumer.subscribe(topics);
      await(
          "assignment of group " + group,
          () -> {
            consumer.poll(Duration.ofMillis(50));
            return consumer.assignment().containsAll(offsets.keySet());
          });
      consumer.commitSync(offsets);
    }
  }

  private static Map<String, Map<Integer, Map<String, Object>>> committed(Admin admin, String group)
      throws Exception {
    Map<String, Map<Integer, Map<String, Object>>> answer = new TreeMap<>();
    admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach(
        (partition, offset) -> {
          if (offset == null) {
            return;
          }
          Map<String, Object> entry = new TreeMap<>();
          entry.put("offset", offset.offset());
          entry.put("leader_epoch", offset.leaderEpoch().orElse(null));
          entry.put("metadata", offset.metadata());
          answer.computeIfAbsent(partition.topic(), any -> new TreeMap<>()).put(partition.partition(), entry);
        });
    return answer;
  }

  /** Runs a main class here, with what it prints as the answer. */
  private static Object tool(String name, List<String> args) throws Exception {
    synchronized (PRINTED) {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      ByteArrayOutputStream err = new ByteArrayOutputStream();
      PrintStream realErr = System.err;
      PRINTED.to = out;
      PRINTED.status = null;
      System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
      boolean success = true;
      try {
        Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args.toArray(new String[0]));
      } catch (InvocationTargetException e) {
        if (!(e.getCause() instanceof Exited)) {
          success = false;
          e.getCause().printStackTrace();
        } else if (e.getCause().getMessage() != null) {
          System.err.println(e.getCause().getMessage());
        }
      } finally {
        System.out.flush();
        System.err.flush();
        System.setErr(realErr);
        PRINTED.to = realErr;
      }
      return Map.of(
          "stdout", out.toString(StandardCharsets.UTF_8),
          "stderr", err.toString(StandardCharsets.UTF_8),
          "success", success && (PRINTED.status == null || PRINTED.status == 0));
    }
  }

  /** A tool wanted to end the JVM. An Error, because tools catch exceptions. */
  private static final class Exited extends Error {
    Exited(String message) {
      super(message, null, false, false);
    }
  }

  /** A stream that can be turned elsewhere. */
  private static final class Printed extends OutputStream {
    private volatile OutputStream to;

    /** The first exit status of the running tool: one that catches everything exits a second time. */
    private volatile Integer status;

    void exited(int status) {
      if (this.status == null) {
        this.status = status;
      }
    }

    Printed(OutputStream to) {
      this.to = to;
    }

    @Override
    public void write(int b) throws IOException {
      to.write(b);
    }

    @Override
    public void write(byte[] bytes, int from, int length) throws IOException {
      to.write(bytes, from, length);
    }

    @Override
    public void flush() throws IOException {
      to.flush();
    }
  }
}
