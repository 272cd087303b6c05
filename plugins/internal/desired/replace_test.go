package desired

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

func TestReplacement(t *testing.T) {
	t.Parallel()
	const (
		a, job, service = `apiVersion: v1, kind: A`, `apiVersion: batch/v1, kind: Job`, `apiVersion: v1, kind: Service`
		role            = `apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole`
		token           = `apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token`
		secret          = `apiVersion: v1, kind: Secret`
		claim           = `apiVersion: v1, kind: PersistentVolumeClaim`
		b               = `{apiVersion: v1, kind: B, name: b, uid: "1"}`
		c               = `{apiVersion: v1, kind: C, name: c, uid: "2"}`
		rules           = `rules: [{verbs: [get]}]`
	)
	for name, c := range map[string]struct{ reason, manifest, live, want string }{
		"replace": {
			"what the manifest does not have goes, except the status; the resourceVersion guards the write",
			a + `, metadata: {name: a}, spec: {x: "1"}, status: {pasted: true}`,
			a + `, metadata: {name: a, labels: {old: "yes"}}, spec: {x: "0", y: "2"}, status: {ready: true}`,
			a + `, metadata: {name: a}, spec: {x: "1"}, status: {ready: true}`,
		},
		"finalizers and owners": {
			"those of others are kept beside those of the manifest",
			a + `, metadata: {finalizers: [mine], ownerReferences: [` + b + `]}`,
			a + `, metadata: {finalizers: [mine, theirs],
				ownerReferences: [{apiVersion: v1, kind: B, name: renamed, uid: "1"}, ` + c + `]}`,
			a + `, metadata: {finalizers: [mine, theirs], ownerReferences: [` + b + `, ` + c + `]}`,
		},
		"job": {
			"a Job keeps what ties it to its pods",
			job + `, spec: {template: {metadata: {labels: {app: a}}}}`,
			job + `, spec: {selector: {matchLabels: {controller-uid: "1"}},
				template: {metadata: {labels: {app: old, controller-uid: "1"}}}}`,
			job + `, spec: {selector: {matchLabels: {controller-uid: "1"}},
				template: {metadata: {labels: {app: a, controller-uid: "1"}}}}`,
		},
		"service": {
			"a Service keeps its addresses", service + `, spec: {type: ClusterIP}`,
			service + `, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]}`,
			service + `, spec: {type: ClusterIP, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]}`,
		},
		"external service": {
			"a Service that becomes a mere name has no address", service + `, spec: {type: ExternalName}`,
			service + `, spec: {clusterIP: 10.0.0.1}`, service + `, spec: {type: ExternalName}`,
		},
		"service account": {
			"secrets of the manifest count, even if there are none", `apiVersion: v1, kind: ServiceAccount, secrets: []`,
			`apiVersion: v1, kind: ServiceAccount, secrets: [{name: s}]`, `apiVersion: v1, kind: ServiceAccount, secrets: []`,
		},
		"cluster role": {"a role without rules grants nothing any more", role, role + `, ` + rules, role},
		"aggregated role": {
			"the rules of an aggregated role belong to its controller", role + `, aggregationRule: {}`,
			role + `, ` + rules, role + `, aggregationRule: {}, ` + rules,
		},
		"token": {
			"a service account keeps its token", token,
			token + `, metadata: {annotations: {kubernetes.io/service-account.uid: s, a: b}}, data: {token: t}`,
			token + `, metadata: {annotations: {kubernetes.io/service-account.uid: s}}, data: {token: t}`,
		},
		"deployment": {
			"its controller counts revisions in an annotation", `apiVersion: apps/v1, kind: Deployment`,
			`apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {deployment.kubernetes.io/revision: "3", a: b}}`,
			`apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {deployment.kubernetes.io/revision: "3"}}`,
		},
		"claim": {
			"a bound claim stays bound", claim + `, metadata: {annotations: {pv.kubernetes.io/bound-by-controller: "no"}}`,
			claim + `, metadata: {annotations: {pv.kubernetes.io/bound-by-controller: "yes",
				pv.kubernetes.io/bind-completed: "yes", volume.kubernetes.io/selected-node: node, a: b}}`,
			claim + `, metadata: {annotations: {pv.kubernetes.io/bound-by-controller: "no",
				pv.kubernetes.io/bind-completed: "yes", volume.kubernetes.io/selected-node: node}}`,
		},
		"secret": {"data that is no longer in the manifest goes", secret, secret + `, data: {token: t}`, secret},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifest, live := plugintest.Object("{"+c.manifest+"}"), plugintest.Object("{"+c.live+"}")
			before, want := manifest.DeepCopy(), plugintest.Object("{"+c.want+"}")
			live.SetResourceVersion("7") // only what exists has these
			live.SetUID("u")
			want.SetResourceVersion("7")
			want.SetUID("u")
			if diff := cmp.Diff(want, replacement(manifest, live)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(before, manifest); diff != "" {
				t.Errorf("the manifest was changed: -want +got:\n%s", diff)
			}
		})
	}
}
