import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * What applications see of a mirror through Apache Kafka's own classes for it.
 *
 * <p>Arguments: bootstrap servers of the target, the source's alias, groups separated by commas, and
 * {@code MirrorClientConfig} properties as {@code key=value}. Each entry of the answer is {@code {"value":
 * ..}} or {@code {"error": "class: message"}}.
 */
final class MirrorProbe {
  private static final Duration LIMIT = Duration.ofSeconds(30);

  private MirrorProbe() {}

  static ObjectNode probe(String alias, List<String> groups, Map<String, Object> config) {
    ObjectNode answer = Json.MAPPER.createObjectNode();
    try (MirrorClient client = new MirrorClient(config)) {
      ask(answer, "heartbeatTopics", () -> new TreeSet<>(client.heartbeatTopics()));
      ask(answer, "checkpointTopics", () -> new TreeSet<>(client.checkpointTopics()));
      ask(answer, "upstreamClusters", () -> new TreeSet<>(client.upstreamClusters()));
      ask(answer, "replicationHops", () -> client.replicationHops(alias));
      ask(answer, "remoteTopics", () -> new TreeSet<>(client.remoteTopics()));
      ask(answer, "remoteTopicsOfSource", () -> new TreeSet<>(client.remoteTopics(alias)));
      ask(answer, "replicationPolicy", () -> client.replicationPolicy().getClass().getName());
      for (String group : groups) {
        ask(
            answer,
            "remoteConsumerOffsets/" + group,
            () -> offsets(client.remoteConsumerOffsets(group, alias, LIMIT)));
      }
    }
    for (String group : groups) {
      ask(
          answer,
          "translateOffsets/" + group,
          () -> offsets(RemoteClusterUtils.translateOffsets(config, alias, group, LIMIT)));
    }
    return answer;
  }

  private static void ask(ObjectNode answer, String name, Callable<Object> question) {
    ObjectNode node = answer.putObject(name);
    try {
      node.set("value", Json.MAPPER.valueToTree(question.call()));
    } catch (Exception e) {
      node.put("error", e.getClass().getName() + ": " + e.getMessage());
    }
  }

  private static Object offsets(Map<TopicPartition, OffsetAndMetadata> offsets) {
    Map<String, Object> answer = new TreeMap<>();
    offsets.forEach(
        (partition, offset) -> {
          Map<String, Object> entry = new TreeMap<>();
          entry.put("offset", offset.offset());
          entry.put("metadata", offset.metadata());
          entry.put("leaderEpoch", offset.leaderEpoch().orElse(null));
          answer.put(partition.toString(), entry);
        });
    return answer;
  }

  public static void main(String[] args) {
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", args[0]);
    for (String entry : Arrays.copyOfRange(args, 3, args.length)) {
      int equals = entry.indexOf('=');
      config.put(entry.substring(0, equals), entry.substring(equals + 1));
    }
    List<String> groups = args[2].isEmpty() ? List.of() : List.of(args[2].split(","));
    System.out.println(probe(args[1], groups, config));
  }
}
