import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What the other classes need of JSON. */
final class Json {
  static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  /** An object of strings; empty where it is absent. */
  static Map<String, String> strings(JsonNode object) {
    Map<String, String> strings = new TreeMap<>();
    if (object != null) {
      object.fields().forEachRemaining(field -> strings.put(field.getKey(), field.getValue().asText()));
    }
    return strings;
  }

  /** An array of strings; empty where it is absent. */
  static List<String> list(JsonNode array) {
    List<String> list = new ArrayList<>();
    if (array != null) {
      array.forEach(item -> list.add(item.asText()));
    }
    return list;
  }
}
