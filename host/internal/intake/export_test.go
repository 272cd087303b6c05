package intake

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
)

// KindConfigMap is the kind of ConfigMaps for Handler.
const KindConfigMap = kindConfigMap

// Handler returns the handler of the objects of a kind.
func Handler(ctx context.Context, r *References, kind string) toolscache.ResourceEventHandler {
	return r.handler(ctx, kind)
}
