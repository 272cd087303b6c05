package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestCredentialsGoToThePlugin: a plugin that takes credentials and ocmConfig gets them with each call of a job, and
// with each operation; errors of its calls show no credentials. Nothing is read for a plugin that has not asked for it,
// and nothing handed over.
func TestCredentialsGoToThePlugin(t *testing.T) {
	const secret = "t0ps3cret"
	config := []byte(`{"auths":{"r.example.org":{"username":"me","password":"` + secret + `"}}}`)
	for _, wanted := range []bool{true, false} {
		t.Run(fmt.Sprintf("wanted %t", wanted), func(t *testing.T) {
			var b *bench
			b = newBench(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
				switch len(b.calls) {
				case 1:
					return fails("NotNow")
				case 2:
					return nil, plugin.ErrProtocol
				default:
					return succeeds(ctx, op, o)
				}
			})
			b.plugin.Capabilities.ContextCredentials, b.plugin.Capabilities.ContextOCMConfig = wanted, wanted
			type named struct {
				Credentials *sdk.Credentials
				OCMConfig   *sdk.OCMConfig
			}
			var got []named
			call := b.plugin.OnCall
			b.plugin.OnCall = func(
				ctx context.Context, op plugin.Operation, in plugin.Call, observer plugin.Observer,
			) (*plugin.Outcome, error) {
				got = append(got, named{in.Credentials, in.OCMConfig})
				return call(ctx, op, in, observer)
			}
			var secretReads, configMapReads int
			counting := interceptor.NewClient(b.admin, intercept(func(object client.Object, do func() error) error {
				switch object.(type) {
				case *corev1.Secret:
					secretReads++
				case *corev1.ConfigMap:
					configMapReads++
				}
				return do()
			}, nil))
			var log bytes.Buffer
			b.set(func(p *parts) {
				p.targets = target.NewResolver(b.admin, counting, target.Options{})
				p.log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			b.patch(b.item, `{"spec":{"context":"own"}}`)
			b.create(&v1alpha1.Context{
				ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: b.item.Namespace},
				ContextConfiguration: v1alpha1.ContextConfiguration{
					RegistryPullSecrets: []v1alpha1.LocalObjectReference{{Name: "pull"}},
					OCMConfig:           &v1alpha1.LocalObjectReference{Name: "places"},
				},
			})
			b.create(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "places", Namespace: b.item.Namespace},
				Data:       map[string]string{".ocmconfig": secret},
			})
			b.create(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "pull", Namespace: b.item.Namespace},
				Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
			})
			b.setJob()
			item := b.drive()
			b.remove(item)
			b.setJob()
			if gone := b.drive(); gone != nil || operations(b.calls) != "Reconcile Reconcile Reconcile Delete" {
				t.Errorf("expected three calls and a deletion, but found %q", b.calls)
			}
			want := named{}
			if wanted {
				want.Credentials = &sdk.Credentials{
					Registries: []sdk.RegistryCredentials{{Secret: "pull", DockerConfig: config}},
				}
				want.OCMConfig = &sdk.OCMConfig{ConfigMap: "places", Content: []byte(secret)}
			}
			for i := range got {
				if diff := cmp.Diff(want, got[i]); diff != "" {
					t.Errorf("call %d (-want +got):\n%s", i, diff)
				}
			}
			if want := map[bool]int{true: 1}[wanted]; secretReads != want || configMapReads != want {
				t.Errorf("the Secret was read %d times for all calls, and the ConfigMap %d times", secretReads, configMapReads)
			}
			status, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(string(status), log.String(), b.errs, b.recorded())
			if strings.Contains(said, secret) {
				t.Errorf("there are credentials in what users and operators read: %s", said)
			}
		})
	}
}
