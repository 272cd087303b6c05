package readiness

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/reader"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func judgeService(o *unstructured.Unstructured) state {
	if object.Text(o.Object, "spec", "type") != "LoadBalancer" {
		return state{}
	}
	ips, _ := object.Value(o.Object, "spec", "externalIPs").([]any)
	if len(ips) > 0 || len(object.Maps(o.Object, "status", "loadBalancer", "ingress")) > 0 {
		return state{}
	}
	return waitingFor("its load balancer has no address yet")
}

func judgeClaim(o *unstructured.Unstructured, bindsLate func() (late bool, doubt string)) state {
	phase := object.Text(o.Object, "status", "phase")
	switch phase {
	case "Bound":
		return state{}
	case "Lost":
		return failedWith("it has lost its volume %s", object.Text(o.Object, "spec", "volumeName"))
	}
	// The scheduler notes the node of the first consumer; from then on the claim is waited for.
	consumed := o.GetAnnotations()["volume.kubernetes.io/selected-node"] != ""
	if consumed || object.Text(o.Object, "spec", "volumeName") != "" {
		return waitingFor("it is not bound yet")
	}
	late, doubt := bindsLate()
	if late {
		return state{}
	}
	return waitingFor("it is not bound yet%s", doubt)
}

// bindsLate reports whether the StorageClass of a volume claim waits for the first consumer. If that is unknown, late
// is false and doubt has the reason.
func bindsLate(ctx context.Context, r *reader.Reader, claim *unstructured.Unstructured) (late bool, doubt string) {
	name := object.Text(claim.Object, "spec", "storageClassName")
	if name == "" {
		return false, ""
	}
	class, err := r.Get(ctx, "", managedresource.TypedObjectReference{
		APIVersion: "storage.k8s.io/v1", Kind: "StorageClass", Name: name,
	})
	switch {
	case err != nil:
		return false, fmt.Sprintf("; it may wait for its first consumer, but its StorageClass cannot be read: %v", err)
	case class.Live == nil:
		return false, "; " + class.Missing
	default:
		return object.Text(class.Live.Object, "volumeBindingMode") == "WaitForFirstConsumer", ""
	}
}
