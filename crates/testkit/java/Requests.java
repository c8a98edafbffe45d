import com.sun.tools.attach.VirtualMachine;
import java.util.Map;
import java.util.TreeMap;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** How many requests of each kind a broker on this machine has answered since it started. */
final class Requests {
  private Requests() {}

  static Map<String, Long> of(long pid) throws Exception {
    VirtualMachine broker = VirtualMachine.attach(Long.toString(pid));
    try (JMXConnector connector =
        JMXConnectorFactory.connect(new JMXServiceURL(broker.startLocalManagementAgent()))) {
      MBeanServerConnection beans = connector.getMBeanServerConnection();
      Map<String, Long> counts = new TreeMap<>();
      // One bean for each kind and version; what is counted under a second name besides is left out.
      for (ObjectName name : beans.queryNames(
          new ObjectName("kafka.network:type=RequestMetrics,name=RequestsPerSec,*"), null)) {
        String request = name.getKeyProperty("request");
        if (!request.equals("FetchConsumer") && !request.equals("FetchFollower")) {
          counts.merge(request, (Long) beans.getAttribute(name, "Count"), Long::sum);
        }
      }
      return counts;
    } finally {
      broker.detach();
    }
  }
}
