import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorCheckpointConfig;
import org.apache.kafka.connect.mirror.MirrorCheckpointTaskConfig;

/**
 * What MirrorMaker 2's checkpoint task answers, given the pairs of offsets that a topic holds.
 *
 * <p>It is MM2's own {@code OffsetSyncStore}, as the task makes, fills and asks it; the class is not
 * public, so it is called by reflection.
 */
final class SyncStoreProbe {
  private SyncStoreProbe() {}

  /**
   * Answers by {@code topic-partition}, one for each offset asked: null where the task would write
   * nothing, -1 for what is before all pairs that it remembers.
   */
  static ObjectNode probe(Map<String, String> config, JsonNode asked) throws Exception {
    Class<?> store = Class.forName("org.apache.kafka.connect.mirror.OffsetSyncStore");
    Constructor<?> make = store.getDeclaredConstructor(MirrorCheckpointConfig.class);
    make.setAccessible(true);
    Method start = store.getDeclaredMethod("start", boolean.class);
    Method ask =
        store.getDeclaredMethod(
            "translateDownstream", String.class, TopicPartition.class, long.class);
    start.setAccessible(true);
    ask.setAccessible(true);
    ObjectNode answers = Json.MAPPER.createObjectNode();
    try (AutoCloseable made = (AutoCloseable) make.newInstance(new MirrorCheckpointTaskConfig(config))) {
      // As a task that has read its own checkpoints: it keeps the pairs of the past, too.
      start.invoke(made, false);
      for (JsonNode one : asked) {
        TopicPartition partition =
            new TopicPartition(one.get("topic").asText(), one.get("partition").asInt());
        ArrayNode list = answers.putArray(partition.toString());
        for (JsonNode offset : one.get("offsets")) {
          OptionalLong answer = (OptionalLong) ask.invoke(made, "probe", partition, offset.asLong());
          if (answer.isPresent()) {
            list.add(answer.getAsLong());
          } else {
            list.addNull();
          }
        }
      }
    }
    return answers;
  }
}
