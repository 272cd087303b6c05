package release

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// HandOver makes the revisions of the wanted deploy item those of its Heir; the decision is Bequeath. The newest one is
// the last: its label decides on the owner, so that an interrupted call is repeated. The error is an explained one, see
// target.Explain.
func HandOver(ctx context.Context, client *target.Client, name helm.Release, history []Revision, want Want) error {
	secrets := client.Core().Secrets(name.Namespace)
	for _, revision := range history {
		secret, err := secrets.Get(ctx, secretName(name.Name, revision.Version), metav1.GetOptions{})
		if apierrors.IsNotFound(err) && revision.Version != Newest(history).Version {
			continue // another client has dropped it
		}
		if err == nil && secret.Labels[ItemLabel] == want.Item {
			metav1.SetMetaDataLabel(&secret.ObjectMeta, ItemLabel, want.Heir)
			metav1.SetMetaDataAnnotation(&secret.ObjectMeta, BequeathedAnnotation, want.Item)
			_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		}
		if err != nil {
			err = fmt.Errorf("hand revision %d of %s over: %w", revision.Version, describe(name), err)
			return target.Explain(client.Host, notPermitted(name, err))
		}
	}
	return nil
}
