import org.apache.kafka.common.security.auth.AuthenticationContext;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;

/** Who comes by the listener READER is nobody known; who comes by another one runs the cluster. */
public class ReaderPrincipal extends DefaultKafkaPrincipalBuilder {
    public ReaderPrincipal() {
        super(null, null);
    }

    @Override
    public KafkaPrincipal build(AuthenticationContext context) {
        return context.listenerName().equals("READER")
            ? KafkaPrincipal.ANONYMOUS
            : new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "admin");
    }
}
