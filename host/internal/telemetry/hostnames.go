package telemetry

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// HostNames are those under which a server may be asked besides IP addresses and localhost. The zero value is for one
// on loopback.
//
// A page of somebody else's in the browser of a person who may read it can make a name of its own lead to the server's
// port, and so read what is served there without a login (DNS rebinding). It cannot do so under an address, or under a
// name that somebody else resolves.
type HostNames struct {
	// Pod is the name of the host's own pod; empty if it has none. Other names without dots are refused: a machine's
	// search domains, and so whoever answers for those, decide where they lead.
	Pod string
	// ClusterDomain is the domain in which Services have names, such as "cluster.local": they may be named
	// <name>.<namespace>.svc, with it or without. Empty if there is no Service that leads to the server.
	ClusterDomain string
	// More are full names that the operator has added.
	More []string
}

// Guard lets requests under these names through to next, and refuses others with 421 and a text that ends with the
// advice.
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

// isService reports whether a name without the cluster's domain is that of a Service.
func isService(name string) bool {
	labels := strings.Split(name, ".")
	return len(labels) == 3 && labels[0] != "" && labels[1] != "" && labels[2] == "svc"
}
