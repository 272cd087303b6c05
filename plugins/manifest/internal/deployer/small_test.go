package deployer

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestLabelValue(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 60) + ".b.c"
	for name, c := range map[string]struct{ reason, name, want string }{
		"short": {reason: "a name that fits is the value, as with Landscaper", name: "item", want: "item"},
		"limit": {reason: "63 characters fit", name: strings.Repeat("a", 63), want: strings.Repeat("a", 63)},
		"long":  {reason: "a name that does not fit is told apart by its hash", name: long, want: long[:54] + labelValue(long)[54:]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := labelValue(c.name)
			if got != c.want {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.want, got)
			}
			if problems := validation.IsValidLabelValue(got); len(problems) > 0 {
				t.Errorf("%s: %q is no label value: %v", c.reason, got, problems)
			}
		})
	}
	if labelValue(long) == labelValue(long+"d") {
		t.Error("two long names have the same label")
	}
}

func TestPollAfter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for age, want := range map[time.Duration]time.Duration{
		-time.Minute: 250 * time.Millisecond, 0: 250 * time.Millisecond, 8 * time.Second: 2 * time.Second, time.Hour: 5 * time.Second,
	} {
		item := &landscaper.DeployItem{}
		item.Status.TransitionTimes = &landscaper.TransitionTimes{InitTime: &landscaper.Time{Time: now.Add(-age)}}
		if got := pollAfter(&sdk.Request{DeployItem: item}, now); got != want {
			t.Errorf("age %s: expected %s, but found %s", age, want, got)
		}
	}
	if got := pollAfter(&sdk.Request{DeployItem: &landscaper.DeployItem{}}, now); got != 250*time.Millisecond {
		t.Errorf("without an age: expected a quarter of a second, but found %s", got)
	}
}

func TestReadAccount(t *testing.T) {
	t.Parallel()
	const group = "manifest.deployer.landscaper.gardener.cloud"
	for name, c := range map[string]struct {
		reason, status string
		entries        int
		fails          bool
	}{
		"none":    {reason: "a new item has no status"},
		"foreign": {reason: "what another deployer noted must not be forgotten", status: `{"apiVersion":"helm.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderStatus"}`, fails: true},
		"kind":    {reason: "neither must something else", status: `{"apiVersion":"` + group + `/v1alpha2","kind":"Other"}`, fails: true},
		"future":  {reason: "fields of a newer version are passed over", status: `{"apiVersion":"` + group + `/v1alpha2","kind":"ProviderStatus","new":1,"managedResources":[{"resource":{"apiVersion":"v1","kind":"A","name":"a"},"new":1}]}`, entries: 1},
		"broken":  {reason: "a status that cannot be read is not an empty one", status: `{"apiVersion":7}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := &landscaper.DeployItem{}
			if c.status != "" {
				item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(c.status)}
			}
			a, err := readAccount(&sdk.Request{DeployItem: item})
			if (err != nil) != c.fails {
				t.Fatalf("%s: got the error %v", c.reason, err)
			}
			if c.fails {
				return
			}
			if got := len(a.ledger.Entries()); got != c.entries {
				t.Errorf("%s: expected %d entries, but found %d", c.reason, c.entries, got)
			}
			if a.unsaved() != nil {
				t.Errorf("%s: expected nothing to save", c.reason)
			}
		})
	}
}
