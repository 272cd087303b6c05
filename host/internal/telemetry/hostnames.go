package telemetry

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// HostNames are the valid host names of a server besides IP addresses and localhost. The zero value is for a server on
// loopback.
//
// A foreign page in the browser of a reader can make its own name lead to the server's port, and so read its content
// without a login (DNS rebinding). It cannot do so under an address, or under a name resolved by others.
type HostNames struct {
	// Pod is the name of the host's own pod; empty if it has none. Other names without dots are refused: the owner of a
	// search domain decides where they lead.
	Pod string
	// ClusterDomain is the domain of Services, such as "cluster.local": <name>.<namespace>.svc is valid with and without
	// it. Empty without a Service for the server.
	ClusterDomain string
	// More are further full names from the operator.
	More []string
}

// Guard passes requests under these names to next, and refuses others with 421 and a text with the advice at its end.
func (n HostNames) Guard(advice string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.allow(r.Host) {
			text := fmt.Sprintf("this host does not answer under the name %.100q; %s", r.Host, advice)
			http.Error(w, text, http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allow reports whether a request may be for a host of this name, with or without a port.
func (n HostNames) allow(host string) bool {
	name := host
	if split, _, err := net.SplitHostPort(host); err == nil {
		name = split
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	switch {
	case name == "":
		return false
	case net.ParseIP(name) != nil, name == "localhost", name == n.Pod:
		return true
	case n.ClusterDomain != "" && isService(strings.TrimSuffix(name, "."+n.ClusterDomain)):
		return true
	default:
		return slices.ContainsFunc(n.More, func(more string) bool { return strings.EqualFold(more, name) })
	}
}

// isService reports whether a name without the cluster's domain is the name of a Service.
func isService(name string) bool {
	labels := strings.Split(name, ".")
	return len(labels) == 3 && labels[0] != "" && labels[1] != "" && labels[2] == "svc"
}
