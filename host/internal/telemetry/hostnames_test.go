package telemetry

import (
	"net/http"
	"strings"
	"testing"
)

// Rule (operators-guide.md#status-page): The status page answers only under names of the cluster.
func TestGuard(t *testing.T) {
	t.Parallel()
	inCluster := HostNames{Pod: "pergola-0", ClusterDomain: "cluster.local", More: []string{"Status.example.org"}}
	otherDomain := HostNames{ClusterDomain: "k8s.example.org"}
	for _, tc := range []struct {
		reason  string
		names   HostNames
		name    string
		allowed bool
	}{
		{"an address", inCluster, "127.0.0.1:9080", true},
		{"an address of IPv6", inCluster, "[::1]:9080", true},
		{"an address of IPv6 without a port", inCluster, "[::1]", true},
		{"the own machine", inCluster, "localhost:9080", true},
		{"the own machine, in full, in capitals", inCluster, "LOCALHOST.", true},
		{"the own pod", inCluster, "pergola-0:9080", true},
		{"a Service", inCluster, "pergola-status.pergola-system.svc", true},
		{"a Service, in full", inCluster, "pergola-status.pergola-system.svc.cluster.local:9080", true},
		{"a Service of a cluster with another domain", otherDomain, "status.system.svc.k8s.example.org", true},
		{"a Service of another cluster's domain", otherDomain, "status.system.svc.cluster.local", false},
		{"a name that the operator has added", inCluster, "status.Example.org:9080", true},
		{"that of somebody else", inCluster, "attacker.example.com:9080", false},
		{"that of somebody else that begins like a Service's", inCluster, "a.svc.attacker.example.com", false},
		{"that of somebody else below svc", inCluster, "x.y.z.svc", false},
		{"no namespace", inCluster, "x.svc", false},
		{"an empty name of a Service", inCluster, ".system.svc", false},
		{"one below the cluster's domain that is no Service's", inCluster, "pergola.cluster.local", false},
		{"a name that search domains make lead anywhere", inCluster, "wpad", false},
		{"another pod", inCluster, "pergola-1", false},
		{"one below it", inCluster, "x.status.example.org", false},
		{"none", inCluster, "", false},
		{"on loopback, the own machine", HostNames{}, "localhost:6060", true},
		{"on loopback, a Service", HostNames{}, "pergola.pergola-system.svc", false},
	} {
		next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		code, body := ask(t, tc.names.Guard("ask properly", next), http.MethodGet, "/", tc.name)
		want := http.StatusOK
		if !tc.allowed {
			want = http.StatusMisdirectedRequest
		}
		if code != want || !tc.allowed && !strings.HasSuffix(body, "; ask properly\n") {
			t.Errorf("%s: found %d %s", tc.reason, code, body)
		}
	}
}
