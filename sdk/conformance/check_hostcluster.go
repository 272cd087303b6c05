package conformance

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

// baitCluster is the access to a cluster that there is not.
func baitCluster() *sdk.HostCluster {
	return &sdk.HostCluster{
		Kubeconfig: []byte(`{"apiVersion":"v1","kind":"Config","current-context":"host",` +
			`"clusters":[{"name":"host","cluster":{"server":"https://host.conformance.invalid"}}],` +
			`"users":[{"name":"host","user":{"token":"bait-7d20b9e6"}}],` +
			`"contexts":[{"name":"host","context":{"cluster":"host","user":"host","namespace":"conformance"}}]}`),
		Namespace: "conformance", Installation: "00000000-0000-0000-0002-000000000000",
	}
}

// checkHostCluster sees whether calls end as usual, whatever access comes with them.
func (e *examination) checkHostCluster(ctx context.Context) {
	e.pass(RuleHostCluster)
	for _, given := range []struct {
		name        string
		cluster     *sdk.HostCluster
		fromThePast bool
	}{
		{name: "access to a host cluster", cluster: baitCluster()},
		{name: "no access to a host cluster"},
		{name: "a host that knows no host cluster", fromThePast: true},
	} {
		call := e.newProbe(e.firstType(), "host-cluster")
		call.HostCluster, call.fromThePast = given.cluster, given.fromThePast
		e.expectUsual(RuleHostCluster, given.name, e.probe(ctx, given.name, call))
	}
}

// checkHoldings asks what is kept, as a host does that has granted no access to its cluster: what is kept elsewhere than there can be told.
func (e *examination) checkHoldings(ctx context.Context) {
	e.pass(RuleHoldings)
	ctx, cancel := context.WithTimeout(ctx, e.limits.probe)
	defer cancel()
	holdings, err := e.plugin.Holdings(ctx, nil)
	var failed *Failed
	switch {
	case errors.As(err, &failed):
		for _, flaw := range failed.flaws() {
			e.breaks(RuleHoldings, "Holdings: %s", flaw)
		}
	case err != nil:
		e.breaks(RuleHoldings, "Holdings: expected holdings or a failure, but found: %v", err)
	}
	for i, h := range holdings {
		if h.Namespace == "" || h.Name == "" || h.UID == "" {
			e.breaks(RuleHoldings, "Holdings: holding %d lacks the namespace, the name or the UID of its deploy item: %s", i, quoted(h.Namespace+"/"+h.Name+" "+string(h.UID)))
		}
	}
}

// tokensOf are the parts of an access that nobody must say.
func tokensOf(cluster *sdk.HostCluster) [][]byte {
	if cluster == nil {
		return nil
	}
	var config struct {
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
	}
	if yaml.Unmarshal(cluster.Kubeconfig, &config) != nil {
		return nil // what cannot be read is of no use
	}
	var tokens [][]byte
	for _, u := range config.Users {
		if len(u.User.Token) >= minSecret {
			tokens = append(tokens, []byte(u.User.Token))
		}
	}
	return tokens
}

func hostClusterToWire(in *sdk.HostCluster) *deployerv1.HostCluster {
	if in == nil {
		return nil
	}
	return &deployerv1.HostCluster{Kubeconfig: in.Kubeconfig, Namespace: in.Namespace, Installation: in.Installation}
}

func holdingsFromWire(in []*deployerv1.Holding) []sdk.Holding {
	holdings := make([]sdk.Holding, 0, len(in))
	for _, h := range in {
		holdings = append(holdings, sdk.Holding{Namespace: h.GetNamespace(), Name: h.GetName(), UID: types.UID(h.GetUid()), JobID: h.GetJobId()})
	}
	return holdings
}

func holdingsToWire(in []sdk.Holding) []*deployerv1.Holding {
	holdings := make([]*deployerv1.Holding, 0, len(in))
	for _, h := range in {
		holdings = append(holdings, &deployerv1.Holding{Namespace: h.Namespace, Name: h.Name, Uid: string(h.UID), JobId: h.JobID})
	}
	return holdings
}
