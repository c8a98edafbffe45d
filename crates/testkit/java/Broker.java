import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/**
 * A broker that formats its own storage on its first start: one JVM instead of two.
 *
 * <p>Arguments: the properties file, the cluster id, and more for the storage formatter.
 */
final class Broker {
  private Broker() {}

  public static void main(String[] args) throws Exception {
    Properties properties = new Properties();
    try (var reader = Files.newBufferedReader(Path.of(args[0]))) {
      properties.load(reader);
    }
    Path meta = Path.of(properties.getProperty("log.dirs").split(",")[0], "meta.properties");
    if (!Files.exists(meta)) {
      List<String> format = new ArrayList<>(List.of("format", "-t", args[1], "-c", args[0]));
      format.addAll(List.of(args).subList(2, args.length));
      int status = kafka.tools.StorageTool.execute(format.toArray(new String[0]), System.err);
      if (status != 0) {
        System.exit(status);
      }
    }
    kafka.Kafka.main(new String[] {args[0]});
  }
}
