package text

import (
	"strings"
	"testing"
)

// Rule (deploy-items.md#view): The advice about a missing right has the Role with it and the account for its binding.
func TestGrants(t *testing.T) {
	t.Parallel()
	const (
		ofHost = `secrets "a" is forbidden: User "system:serviceaccount:pergola-system:pergola" cannot `
		get    = ofHost + `get resource "secrets" in API group "" in the namespace "shop"`
		scale  = `deployments.apps "a" is forbidden: User "guest" cannot patch resource "deployments/scale" ` +
			`in API group "apps" at the cluster scope`
	)
	for message, want := range map[string]string{
		get: `a Role in the namespace "shop" with the verb "get" for secrets, ` +
			`and a RoleBinding of it to the ServiceAccount "pergola-system/pergola"`,
		scale: `a ClusterRole with the verb "patch" for deployments.apps/scale, ` +
			`and a ClusterRoleBinding of it to the user "guest"`,
		`pods "a" is forbidden: exceeded quota`: "",
		"":                                      "",
	} {
		if got := Grants(message); got != want {
			t.Errorf("%s:\nexpected %s\nbut found %s", message, want, got)
		}
	}
	all := get + "; " + get + "; " + scale
	for _, verb := range []string{"list", "watch", "patch"} {
		all += "; " + strings.Replace(get, "cannot get", "cannot "+verb, 1)
	}
	if got := Grants(all); strings.Count(got, "a Role in") != 2 || strings.Count(got, "a ClusterRole with") != 1 {
		t.Errorf("expected the first three rights, each once, but found %s", got)
	}
}
