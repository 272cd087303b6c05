package desired

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
				"metadata": fields{"name": "a", "labels": fields{"old": "yes"}},
				"spec":     fields{"x": "0", "y": "2"}, "status": fields{"ready": true},
			}),
			want: of("v1", "A", fields{
				"metadata": fields{"name": "a"},
				"spec":     fields{"x": "1"}, "status": fields{"ready": true},
			}),
		},
		"finalizers and owners": {
			reason: "those of others are kept beside those of the manifest",
			manifest: of("v1", "A", fields{"metadata": fields{
				"finalizers": []any{"mine"}, "ownerReferences": []any{fields{"apiVersion": "v1", "kind": "B", "name": "b", "uid": "1"}},
			}}),
			live: of("v1", "A", fields{"metadata": fields{
				"finalizers": []any{"mine", "theirs"}, "ownerReferences": []any{
					fields{"apiVersion": "v1", "kind": "B", "name": "renamed", "uid": "1"}, fields{"apiVersion": "v1", "kind": "C", "name": "c", "uid": "2"},
				},
			}}),
			want: of("v1", "A", fields{"metadata": fields{
				"finalizers": []any{"mine", "theirs"}, "ownerReferences": []any{
					fields{"apiVersion": "v1", "kind": "B", "name": "b", "uid": "1"}, fields{"apiVersion": "v1", "kind": "C", "name": "c", "uid": "2"},
				},
			}}),
		},
		"job": {
			reason:   "a Job keeps what ties it to its pods",
			manifest: of("batch/v1", "Job", fields{"spec": fields{"template": fields{"metadata": fields{"labels": fields{"app": "a"}}}}}),
			live: of("batch/v1", "Job", fields{"spec": fields{
				"selector": fields{"matchLabels": fields{"controller-uid": "1"}},
				"template": fields{"metadata": fields{"labels": fields{"app": "old", "controller-uid": "1"}}},
			}}),
			want: of("batch/v1", "Job", fields{"spec": fields{
				"selector": fields{"matchLabels": fields{"controller-uid": "1"}},
				"template": fields{"metadata": fields{"labels": fields{"app": "a", "controller-uid": "1"}}},
			}}),
		},
		"service": {
			reason:   "a Service keeps its addresses",
			manifest: of("v1", "Service", fields{"spec": fields{"type": "ClusterIP"}}),
			live:     of("v1", "Service", fields{"spec": fields{"clusterIP": "10.0.0.1", "clusterIPs": []any{"10.0.0.1"}}}),
			want: of("v1", "Service", fields{
				"spec": fields{"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": []any{"10.0.0.1"}},
			}),
		},
		"external service": {
			reason:   "a Service that becomes a mere name has no address",
			manifest: of("v1", "Service", fields{"spec": fields{"type": "ExternalName"}}),
			live:     of("v1", "Service", fields{"spec": fields{"clusterIP": "10.0.0.1"}}),
			want:     of("v1", "Service", fields{"spec": fields{"type": "ExternalName"}}),
		},
		"service account": {
			reason:   "secrets of the manifest count, even if there are none",
			manifest: of("v1", "ServiceAccount", fields{"secrets": []any{}}),
			live:     of("v1", "ServiceAccount", fields{"secrets": []any{fields{"name": "s"}}}),
			want:     of("v1", "ServiceAccount", fields{"secrets": []any{}}),
		},
		"cluster role": {
			reason:   "a role without rules grants nothing any more",
			manifest: of("rbac.authorization.k8s.io/v1", "ClusterRole", nil),
			live: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{
				"rules": []any{fields{"verbs": []any{"get"}}},
			}),
			want: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{}),
		},
		"aggregated role": {
			reason:   "the rules of an aggregated role belong to its controller",
			manifest: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{"aggregationRule": fields{}}),
			live: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{
				"rules": []any{fields{"verbs": []any{"get"}}},
			}),
			want: of("rbac.authorization.k8s.io/v1", "ClusterRole", fields{
				"aggregationRule": fields{}, "rules": []any{fields{"verbs": []any{"get"}}},
			}),
		},
		"token": {
			reason:   "a service account keeps its token",
			manifest: of("v1", "Secret", fields{"type": "kubernetes.io/service-account-token"}),
			live: of("v1", "Secret", fields{
				"metadata": fields{"annotations": fields{"kubernetes.io/service-account.uid": "s", "a": "b"}},
				"type":     "kubernetes.io/service-account-token", "data": fields{"token": "t"},
			}),
			want: of("v1", "Secret", fields{
				"metadata": fields{"annotations": fields{"kubernetes.io/service-account.uid": "s"}},
				"type":     "kubernetes.io/service-account-token", "data": fields{"token": "t"},
			}),
		},
		"secret": {
			reason:   "data that is no longer in the manifest goes",
			manifest: of("v1", "Secret", nil),
			live:     of("v1", "Secret", fields{"data": fields{"token": "t"}}),
			want:     of("v1", "Secret", fields{}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, o := range []*unstructured.Unstructured{c.live, c.want} { // only what exists has these
				o.SetResourceVersion("7")
				o.SetUID("u")
			}
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
