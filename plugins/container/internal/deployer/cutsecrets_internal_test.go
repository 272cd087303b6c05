package deployer

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/redact"
)

// TestCutSecrets: the kubelet keeps the last bytes of what a container has said, so that a message may begin within a
// secret.
func TestCutSecrets(t *testing.T) {
	t.Parallel()
	var key strings.Builder
	for i := range 300 {
		key.WriteString("k" + strings.Repeat(string(rune('a'+i%26)), 3) + string(rune('0'+i%10)) + string(rune('A'+i%24)))
	}
	hidden := redact.New(json.RawMessage(`{"key":"` + key.String() + `"}`))
	said := "key: " + key.String()
	said = said[max(0, len(said)-1024):]
	status := containerStatus(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: said}}}, hidden)
	if end := key.String()[key.Len()-100:]; strings.Contains(status.Message, end) {
		t.Errorf("expected no part of the key, but found the last %d bytes of it", len(status.Message))
	}
}
