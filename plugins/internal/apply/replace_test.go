package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
)

type fields = map[string]any

func of(apiVersion, kind string, more fields) *unstructured.Unstructured {
	o := fields{"apiVersion": apiVersion, "kind": kind}
	for k, v := range more {
		o[k] = v
	}
	return &unstructured.Unstructured{Object: o}
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason               string
		manifest, live, want *unstructured.Unstructured
	}{
		"replace": {
			reason:   "what the manifest does not have goes, except the status; the resourceVersion guards the write",
			manifest: of("v1", "A", fields{"metadata": fields{"name": "a"}, "spec": fields{"x": "1"}, "status": fields{"pasted": true}}),
			live: of("v1", "A", fields{
				"metadata": fields{"name": "a", "resourceVersion": "7", "uid": "u", "labels": fields{"old": "yes"}},
				"spec":     fields{"x": "0", "y": "2"}, "status": fields{"ready": true},
			}),
			want: of("v1", "A", fields{
				"metadata": fields{"name": "a", "resourceVersion": "7", "uid": "u"},
				"spec":     fields{"x": "1"}, "status": fields{"ready": true},
			}),
		},
		"finalizers and owners": {
			reason: "those of others are kept beside those of the manifest",
			manifest: of("v1", "A", fields{"metadata": fields{
				"finalizers": []any{"mine"}, "ownerReferences": []any{fields{"apiVersion": "v1", "kind": "B", "name": "b", "uid": "1"}},
			}}),
			live: of("v1", "A", fields{"metadata": fields{
				"resourceVersion": "7", "uid": "u", "finalizers": []any{"mine", "theirs"}, "ownerReferences": []any{
					fields{"apiVersion": "v1", "kind": "B", "name": "renamed", "uid": "1"}, fields{"apiVersion": "v1", "kind": "C", "name": "c", "uid": "2"},
				},
			}}),
			want: of("v1", "A", fields{"metadata": fields{
				"resourceVersion": "7", "uid": "u", "finalizers": []any{"mine", "theirs"}, "ownerReferences": []any{
					fields{"apiVersion": "v1", "kind": "B", "name": "b", "uid": "1"}, fields{"apiVersion": "v1", "kind": "C", "name": "c", "uid": "2"},
				},
			}}),
		},
		"job": {
			reason:   "a Job keeps what ties it to its pods",
			manifest: of("batch/v1", "Job", fields{"spec": fields{"template": fields{"metadata": fields{"labels": fields{"app": "a"}}}}}),
			live: of("batch/v1", "Job", fields{"metadata": fields{"resourceVersion": "7", "uid": "u"}, "spec": fields{
				"selector": fields{"matchLabels": fields{"controller-uid": "1"}},
				"template": fields{"metadata": fields{"labels": fields{"app": "old", "controller-uid": "1"}}},
			}}),
			want: of("batch/v1", "Job", fields{"metadata": fields{"resourceVersion": "7", "uid": "u"}, "spec": fields{
				"selector": fields{"matchLabels": fields{"controller-uid": "1"}},
				"template": fields{"metadata": fields{"labels": fields{"app": "a", "controller-uid": "1"}}},
			}}),
		},
		"service": {
			reason:   "a Service keeps its addresses",
			manifest: of("v1", "Service", fields{"spec": fields{"type": "ClusterIP"}}),
			live: of("v1", "Service", fields{
				"metadata": fields{"resourceVersion": "7", "uid": "u"}, "spec": fields{"clusterIP": "10.0.0.1", "clusterIPs": []any{"10.0.0.1"}},
			}),
			want: of("v1", "Service", fields{
				"metadata": fields{"resourceVersion": "7", "uid": "u"},
				"spec":     fields{"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": []any{"10.0.0.1"}},
			}),
		},
		"external service": {
			reason:   "a Service that becomes a mere name has no address",
			manifest: of("v1", "Service", fields{"spec": fields{"type": "ExternalName"}}),
			live: of("v1", "Service", fields{
				"metadata": fields{"resourceVersion": "7", "uid": "u"}, "spec": fields{"clusterIP": "10.0.0.1"},
			}),
			want: of("v1", "Service", fields{
				"metadata": fields{"resourceVersion": "7", "uid": "u"}, "spec": fields{"type": "ExternalName"},
			}),
		},
		"service account": {
			reason:   "secrets of the manifest count, even if there are none",
			manifest: of("v1", "ServiceAccount", fields{"secrets": []any{}}),
			live:     of("v1", "ServiceAccount", fields{"metadata": fields{"resourceVersion": "7", "uid": "u"}, "secrets": []any{fields{"name": "s"}}}),
			want:     of("v1", "ServiceAccount", fields{"metadata": fields{"resourceVersion": "7", "uid": "u"}, "secrets": []any{}}),
		},
		"cluster role": {
			reason:   "a role without rules grants nothing any more",
			manifest: of("rbac.authorization.k8s.io/v1", "ClusterRole", nil),
			live: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{
				"metadata": fields{"resourceVersion": "7", "uid": "u"}, "rules": []any{fields{"verbs": []any{"get"}}},
			}),
			want: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{"metadata": fields{"resourceVersion": "7", "uid": "u"}}),
		},
		"aggregated role": {
			reason:   "the rules of an aggregated role belong to its controller",
			manifest: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{"aggregationRule": fields{}}),
			live: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{
				"metadata": fields{"resourceVersion": "7", "uid": "u"}, "rules": []any{fields{"verbs": []any{"get"}}},
			}),
			want: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{
				"metadata": fields{"resourceVersion": "7", "uid": "u"}, "aggregationRule": fields{}, "rules": []any{fields{"verbs": []any{"get"}}},
			}),
		},
		"volume claim": {
			reason:   "a claim stays bound",
			manifest: of("v1", "PersistentVolumeClaim", fields{"spec": fields{"storageClassName": "fast"}}),
			live: of("v1", "PersistentVolumeClaim", fields{
				"metadata": fields{"resourceVersion": "7", "uid": "u"}, "spec": fields{"storageClassName": "slow", "volumeName": "v"},
			}),
			want: of("v1", "PersistentVolumeClaim", fields{
				"metadata": fields{"resourceVersion": "7", "uid": "u"}, "spec": fields{"storageClassName": "fast", "volumeName": "v"},
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := c.manifest.DeepCopy()
			if diff := cmp.Diff(c.want.Object, replacement(c.manifest, c.live).Object); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(before.Object, c.manifest.Object); diff != "" {
				t.Errorf("the manifest was changed: -want +got:\n%s", diff)
			}
		})
	}
}

func TestNewItem(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"item": "x"}
	named := func(namespace string) *unstructured.Unstructured {
		return of("v1", "A", fields{"metadata": fields{"name": "a", "namespace": namespace}})
	}
	for name, c := range map[string]struct {
		reason     string
		namespace  string
		namespaced bool
		want       string
	}{
		"given":          {reason: "a namespace counts", namespace: "shop", namespaced: true, want: "A shop/a"},
		"none":           {reason: "the default is kubectl's", namespaced: true, want: "A default/a"},
		"cluster-scoped": {reason: "a namespace is dropped where none belongs, as the API server does", namespace: "shop", want: "A a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := newItem(named(c.namespace), targetclient.Mapping{Namespaced: c.namespaced}, false, labels)
			if got := item.Key.String(); got != c.want {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.want, got)
			}
			if diff := cmp.Diff(labels, item.Desired.GetLabels()); diff != "" {
				t.Errorf("labels: -want +got:\n%s", diff)
			}
		})
	}
}

func TestAddDefined(t *testing.T) {
	t.Parallel()
	defined := map[schema.GroupVersionKind]targetclient.Mapping{}
	addDefined(defined, of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"spec": fields{
		"group": "example.org", "scope": "Namespaced", "names": fields{"kind": "Widget", "plural": "widgets"},
		"versions": []any{fields{"name": "v1", "served": true}, fields{"name": "v0", "served": false}, "nonsense"},
	}}))
	addDefined(defined, of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"spec": "nonsense"}))
	addDefined(defined, of("v1", "ConfigMap", nil))
	want := map[schema.GroupVersionKind]targetclient.Mapping{
		{Group: "example.org", Version: "v1", Kind: "Widget"}: {
			Resource: schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}, Namespaced: true,
		},
	}
	if diff := cmp.Diff(want, defined); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
