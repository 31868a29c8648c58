package testenv

import (
	"encoding/base64"
	"fmt"
	"time"
)

// KafkaScope is what a token needs at the listener of KafkaOptions.OAuth.
const KafkaScope = "publish"

// KafkaSession is how long a session lasts there at most.
const KafkaSession = 3 * time.Second

// KafkaToken returns a token without a signature: Kafka comes with a check of such ones.
func KafkaToken(user, scope string, expires time.Time) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"sub":%q,"scope":[%q],"iat":%d,"exp":%d}`, user, scope, time.Now().Add(-time.Hour).Unix(), expires.Unix())
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
}

// oauthConfig lets in who has a token at a listener, whose name is in lower case.
func oauthConfig(listener string) map[string]string {
	const module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
	begin := "listener.name." + listener + "."
	return map[string]string{
		begin + "sasl.enabled.mechanisms": "OAUTHBEARER",
		begin + "oauthbearer.sasl.jaas.config": fmt.Sprintf(
			"%s unsecuredLoginStringClaim_sub=\"broker\" unsecuredValidatorRequiredScope=%q;", module, KafkaScope),
		begin + "oauthbearer.connections.max.reauth.ms": fmt.Sprint(KafkaSession.Milliseconds()),
	}
}
