package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const contextSecret = "t0ps3cret"

// creditor is a bench whose Context names credentials, and whose plugin takes them.
type creditor struct {
	*bench

	log bytes.Buffer
	// got are the credentials of each call.
	got []*sdk.Credentials
	// reads are the names of the Secrets that were read, with their data.
	reads []string
	// failing is what reads of Secrets fail with; nil for nothing.
	failing error
}

func newCreditor(t *testing.T, answer answer, modify ...func(*v1alpha1.DeployItem)) *creditor {
	t.Helper()
	b := newBench(t, answer, modify...)
	c := &creditor{bench: b}
	b.plugin.capabilities.ContextCredentials = true
	call := b.plugin.call
	b.plugin.call = func(ctx context.Context, op plugin.Operation, in plugin.Call, observer plugin.Observer) (*plugin.Outcome, error) {
		c.got = append(c.got, in.Credentials)
		return call(ctx, op, in, observer)
	}
	live := interceptor.NewClient(b.admin, interceptor.Funcs{
		Get: func(ctx context.Context, client client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, ok := object.(*corev1.Secret); ok {
				c.reads = append(c.reads, key.Name)
				if c.failing != nil {
					return c.failing
				}
			}
			return client.Get(ctx, key, object, opts...)
		},
	})
	b.targets = target.NewResolver(b.admin, live)
	b.log = slog.New(slog.NewJSONHandler(&c.log, &slog.HandlerOptions{Level: slog.LevelDebug}))

	lsContext := &v1alpha1.Context{}
	if err := b.admin.Get(t.Context(), client.ObjectKey{Namespace: b.item.Namespace, Name: v1alpha1.DefaultContextName}, lsContext); err != nil {
		t.Fatal(err)
	}
	lsContext.RegistryPullSecrets = []v1alpha1.LocalObjectReference{{Name: "pull"}}
	lsContext.Configurations = map[string]runtime.RawExtension{"helmChartRepoCredentials": {Raw: []byte(
		`{"auths":[{"url":"https://a.example.org","authHeader":"Basic ` + contextSecret + `"},{"url":"https://b.example.org","secretRef":{"name":"header"}}]}`,
	)}}
	b.update(lsContext)
	return c
}

const pullConfig = `{"auths":{"r.example.org":{"username":"me","password":"` + contextSecret + `"}}}`

// createSecrets creates the Secrets that the Context names.
func (c *creditor) createSecrets() {
	c.t.Helper()
	c.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "pull", Namespace: c.item.Namespace},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(pullConfig)},
	})
	c.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "header", Namespace: c.item.Namespace}, Data: map[string][]byte{"authHeader": []byte("Bearer " + contextSecret + "\n")},
	})
}

func allCredentials() *sdk.Credentials {
	return &sdk.Credentials{
		Registries: []sdk.RegistryCredentials{{Secret: "pull", DockerConfig: []byte(pullConfig)}},
		ChartRepositories: []sdk.ChartRepositoryCredentials{
			{URL: "https://a.example.org", AuthHeader: "Basic " + contextSecret}, {URL: "https://b.example.org", AuthHeader: "Bearer " + contextSecret},
		},
	}
}

// checkKept looks for the secret wherever people look.
func (c *creditor) checkKept(item *v1alpha1.DeployItem) {
	c.t.Helper()
	status, err := json.Marshal(item)
	if err != nil {
		c.t.Fatal(err)
	}
	places := map[string]string{"log": c.log.String(), "item": string(status)}
	for len(c.events.Events) > 0 {
		places["events"] += <-c.events.Events + "\n"
	}
	for _, err := range c.errs {
		places["errors"] += err.Error() + "\n"
	}
	if places["log"] == "" || places["events"] == "" {
		c.t.Error("expected a log and events to look at")
	}
	for place, text := range places {
		if strings.Contains(text, contextSecret) {
			c.t.Errorf("there are credentials in the %s: %s", place, text)
		}
	}
}

// A plugin that takes credentials gets them with each call of a job, and with each operation; what it says of trouble
// goes to people, and credentials do not.
func TestCredentialsGoToThePlugin(t *testing.T) {
	calls := 0
	c := newCreditor(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		switch calls++; calls {
		case 1:
			o.Progress("Pull", "pulling")
			return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Second, WaitingFor: "a pod"}}, nil
		case 2:
			return fails("NotNow")
		case 3:
			return nil, plugin.ErrProtocol
		default:
			return succeeds(ctx, op, o)
		}
	})
	c.createSecrets()
	c.setJob()
	item := c.drive()
	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Fatalf("expected success, but found %s", describe(item))
	}
	c.remove(item)
	c.setJob()
	if gone := c.drive(); gone != nil {
		t.Errorf("expected the item to be gone, but found %s", describe(gone))
	}
	if len(c.got) != 5 || !strings.HasPrefix(c.calls[4], string(plugin.Delete)) {
		t.Fatalf("expected four calls and a deletion, but found %q", c.calls)
	}
	for i, got := range c.got {
		if diff := cmp.Diff(allCredentials(), got); diff != "" {
			t.Errorf("call %d (-want +got):\n%s", i, diff)
		}
	}
	if diff := cmp.Diff([]string{"pull", "header"}, c.reads); diff != "" {
		t.Errorf("expected each Secret to be read once for all calls (-want +got):\n%s", diff)
	}
	c.checkKept(item)
}

// Nothing is read for a plugin that has not asked for it, and nothing handed over.
func TestCredentialsAreReadOnlyWhereWanted(t *testing.T) {
	c := newCreditor(t, succeeds)
	c.plugin.capabilities.ContextCredentials = false
	c.createSecrets()
	c.setJob()
	item := c.drive()
	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || len(c.got) != 1 || c.got[0] != nil || len(c.reads) > 0 {
		t.Errorf("expected success without credentials, but found %s, %v, reads of %q", describe(item), c.got, c.reads)
	}
	c.checkKept(item)
}
