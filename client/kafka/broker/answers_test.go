package broker

import (
	"errors"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestAdviceIsForAnyLogin holds for consumers, which have logins of their own.
func TestAdviceIsForAnyLogin(t *testing.T) {
	cluster := &Cluster{}
	for code := range verdicts {
		if code == kafkago.IllegalSASLState {
			continue
		}
		if text := cluster.Explain("orders", code).Error(); strings.Contains(text, "bridge") {
			t.Errorf("%s", text)
		}
	}
	denied := (&attempts{topic: "orders"}).failed(t.Context(), 0, kafkago.TopicAuthorizationFailed)
	if !errors.Is(denied, kafkago.TopicAuthorizationFailed) || strings.Contains(denied.Error(), "bridge") {
		t.Error(denied)
	}
}
