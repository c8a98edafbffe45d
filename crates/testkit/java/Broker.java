import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/**
 * A broker that formats its own storage on its first start: one JVM instead of two.
 *
 * <p>Arguments: the properties file and the cluster id.
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
      String[] format = {"format", "-t", args[1], "-c", args[0]};
      int status = kafka.tools.StorageTool.execute(format, System.err);
      if (status != 0) {
        System.exit(status);
      }
    }
    kafka.Kafka.main(new String[] {args[0]});
  }
}
