package items

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestItemsTree(t *testing.T) {
	s := newShop(t)
	s.target("here")
	s.create(&corev1.ServiceAccount{ObjectMeta: s.named("poor")})
	s.selfTarget("poor", `{"serviceAccount":{"name":"poor"}}`)
	s.allow("system:serviceaccount:"+s.namespace+":poor", "get", "configmaps")
	guest := s.allow("guest", "get", deployItems)
	s.create(&corev1.ConfigMap{ObjectMeta: s.named("settings")})
	s.create(&corev1.Secret{ObjectMeta: s.named("token"), StringData: map[string]string{"a": "t0ps3cret"}})
	objects := keeps(strings.ReplaceAll(`{"apiVersion":"v1","kind":"ProviderStatus","managedResources":[
		{"apiVersion":"v1","kind":"ConfigMap","namespace":"NS","name":"settings"},
		{"apiVersion":"v1","kind":"Secret","namespace":"NS","name":"token"},
		{"apiVersion":"v1","kind":"ConfigMap","namespace":"NS","name":"lost"},
		{"apiVersion":"example.org/v1","kind":"Rose","namespace":"NS","name":"red"}]}`, "NS", s.namespace))
	s.item("shop", on("here"), setJob("job-1"), beginJob, waitFor("Secret token"), objects)
	s.item("poor", on("poor"), objects)
	s.selfTarget("self", `{}`)
	s.item("self", on("self"), objects)
	s.item("lost", on("nowhere"), objects)
	s.item("nowhere", objects)

	s.expect([]itemsCase{
		{"each object", "tree shop", 0, []string{`DeployItem NS/shop  Progressing  Secret token
├─ ConfigMap NS/settings  Ready
├─ Secret NS/token  Ready
├─ ConfigMap NS/lost  Missing  it is not there
└─ Rose NS/red  Missing  the cluster has no such kind of objects
`}},
		{"in colour", "tree shop --color always", 0, []string{"\x1b[32mReady\x1b[0m"}},
		{"rights of the Target", "tree poor", 0, []string{
			"├─ ConfigMap NS/settings  Ready", "├─ Secret NS/token  Unknown  secrets \"token\" is forbidden",
		}},
		{"no ServiceAccount in the Target", "tree self", 0, []string{"selfConfig.serviceAccount.name"}},
		{"the operator names it", "tree self --target-service-account poor", 0, []string{"├─ ConfigMap NS/settings  Ready"}},
		{"no such Target", "tree lost", 0, []string{
			"└─ Objects  Unknown  Target \"NS/nowhere\": there is no such Target",
		}},
		{"no Target at all", "tree nowhere", 0, []string{"└─ Objects  Unknown  the item has no Target"}},
		{"rights of the user", "tree poor --kubeconfig " + guest, 0, []string{
			"└─ Objects  Unknown", "targets.landscaper.gardener.cloud \"poor\" is forbidden", "your own rights",
		}},
		{"no such item", "tree nobody", 2, []string{"there is no DeployItem"}},
		{"a document", "tree shop -o json", 0, []string{`"children": [`, `"kind": "Secret"`}},
	}...)
}
