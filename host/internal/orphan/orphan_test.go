package orphan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/mark"
)

func TestRelation(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 60)
	item := func(namespace, name string, uid types.UID) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}
	}
	items := []metav1.PartialObjectMetadata{item("shop", "web", "1"), item("shop", long, "2")}
	existing := newItems(items, []string{"here", ""})
	type labels = map[string]string
	for name, c := range map[string]struct {
		labels, annotations labels
		want                relation
	}{
		"exists":               {labels{mark.DeployItem: "shop.web"}, nil, living},
		"long name":            {labels{mark.DeployItem: mark.ValueOf("shop", long)}, nil, living},
		"another name":         {labels{mark.DeployItem: "shop.db"}, nil, orphaned},
		"another namespace":    {labels{mark.DeployItem: "yard.web"}, nil, orphaned},
		"empty":                {labels{mark.DeployItem: ""}, nil, orphaned},
		"of here":              {labels{mark.DeployItem: "shop.db"}, labels{mark.Installation: "here"}, orphaned},
		"of elsewhere":         {labels{mark.DeployItem: "shop.db"}, labels{mark.Installation: "there"}, elsewhere},
		"same name elsewhere":  {labels{mark.DeployItem: "shop.web"}, labels{mark.Installation: "there"}, elsewhere},
		"release":              {labels{mark.DeployItem: "shop.db", mark.Installation: "here"}, nil, orphaned},
		"release of elsewhere": {labels{mark.DeployItem: "shop.db", mark.Installation: "there"}, nil, elsewhere},
		"container": {labels{
			mark.DeployItem: "shop.web", mark.ContainerInstallation: "here", mark.ContainerItem: "1",
		}, nil, living},
		"container of the one before": {labels{
			mark.DeployItem: "shop.web", mark.ContainerInstallation: "here", mark.ContainerItem: "0",
		}, nil, orphaned},
		"container of elsewhere": {labels{
			mark.DeployItem: "shop.web", mark.ContainerInstallation: "there", mark.ContainerItem: "1",
		}, nil, elsewhere},
		"container of nobody knows where": {labels{
			mark.DeployItem: "shop.db", mark.ContainerInstallation: mark.NoInstallation, mark.ContainerItem: "3",
		}, nil, orphaned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := existing.relationTo(&metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations})
			if got != c.want {
				t.Errorf("expected %d, but found %d", c.want, got)
			}
		})
	}
}

func TestGoesWithAnother(t *testing.T) {
	t.Parallel()
	by := func(managers ...string) metav1.ObjectMeta {
		o := metav1.ObjectMeta{}
		for _, m := range managers {
			o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{Manager: m})
		}
		return o
	}
	isController := true
	controlled := by("pergola")
	controlled.OwnerReferences = []metav1.OwnerReference{{Controller: &isController}}
	owned := by("pergola")
	owned.OwnerReferences = []metav1.OwnerReference{{}}
	for name, c := range map[string]struct {
		object metav1.ObjectMeta
		want   bool
	}{
		"deployed":                        {by("pergola", "kube-controller-manager"), false},
		"nobody knows by whom":            {by(), false},
		"Endpoints of a Service":          {by("kube-controller-manager"), true},
		"EndpointSlice of a Service":      {controlled, true},
		"deployed with an owner":          {owned, false},
		"Secret of a Helm release":        {by("helm"), false},
		"deployed and changed by another": {by("kubectl-edit"), false},
	} {
		if got := goesWithAnother(&c.object); got != c.want {
			t.Errorf("%s: expected %t", name, c.want)
		}
	}
}
