package pod

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

const (
	mebibyte  = 1 << 20
	namespace = "runs"
)

// shop is the run of most tests.
func shop() Identity {
	return Identity{
		Installation: "here", PodNamespace: namespace, Namespace: "team-a", Name: "web.shop",
		UID: "0b5e2c1d-6f7a-4b8c-9d0e-1f2a3b4c5d6e", Generation: 7,
		JobID: "job-1", Operation: v1alpha1.OperationReconcile,
	}
}

// identities draws runs of deploy items that Kubernetes takes.
func identities() *rapid.Generator[Identity] {
	label := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`)
	return rapid.Custom(func(t *rapid.T) Identity {
		name := strings.Join(rapid.SliceOfN(label, 1, 6).Draw(t, "name"), ".")
		return Identity{
			Installation: rapid.SampledFrom([]string{
				"", "here", "0b5e2c1d-6f7a-4b8c-9d0e-1f2a3b4c5d6e",
			}).Draw(t, "installation"),
			PodNamespace: namespace,
			Namespace:    label.Draw(t, "namespace"),
			Name:         strings.Trim(name[:min(len(name), validation.DNS1123SubdomainMaxLength)], "-."),
			UID:          types.UID(rapid.StringMatching(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).Draw(t, "uid")),
			Generation:   rapid.Int64Min(0).Draw(t, "generation"),
			JobID:        rapid.String().Draw(t, "job"),
			Operation:    rapid.SampledFrom(Operations()).Draw(t, "operation"),
		}
	})
}

// objects are all that is created for a run.
func objects(t rapid.TB, i Identity) []metav1.Object {
	t.Helper()
	upload := i.Upload(11*mebibyte, mebibyte)
	access, err := i.Access(upload, "token")
	if err != nil {
		t.Fatal(err)
	}
	pod, err := i.Pod(&Template{Image: "image:1"})
	if err != nil {
		t.Fatal(err)
	}
	all := []metav1.Object{pod, access, i.Result(), i.Pull(nil), i.ServiceAccount(), i.Role(upload), i.RoleBinding()}
	chunks := make([][]byte, 11)
	for _, secret := range slices.Concat(i.Inputs(chunks), i.OldState(chunks)) {
		all = append(all, secret)
	}
	for _, name := range upload.State {
		all = append(all, &metav1.ObjectMeta{
			Namespace: upload.Namespace, Name: name, Labels: upload.StateLabels, Annotations: upload.StateAnnotations,
		})
	}
	return append(all, &metav1.ObjectMeta{Namespace: upload.Namespace, Name: upload.Result, Labels: upload.ResultLabels})
}

func TestRunNameStaysWhatItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason          string
		namespace, name string
		want            string
	}{
		"short": {
			reason: "a plugin that is updated while a Pod runs has to find it", namespace: "team-a", name: "shop",
			want: "team-a-shop-1774311664",
		},
		"dots": {
			reason: "a host name has no dots", namespace: "team-a", name: "web.shop", want: "team-a-web-shop-1774311664",
		},
		"long name": {
			reason: "the namespace is told as long as it leaves half to the name", namespace: "team-a",
			name: strings.Repeat("shop", 20),
			want: "team-a-shopshopshopshopshopshopshopshopshopshopshops-1774311664",
		},
		"long namespace": {
			reason: "a short name is told in full", namespace: strings.Repeat("team", 15), name: "shop",
			want: "teamteamteamteamteamteamteamteamteamteamteamtea-shop-1774311664",
		},
		"both long": {
			reason: "each has its half", namespace: strings.Repeat("team", 15), name: strings.Repeat("shop", 20),
			want: "teamteamteamteamteamteamte-shopshopshopshopshopshops-1774311664",
		},
		"cut at a dot": {
			reason: "what is for people does not end with a dash", namespace: "a", name: strings.Repeat("b", 49) + ".c",
			want: "a-" + strings.Repeat("b", 49) + "-1774311664",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := shop()
			i.Namespace, i.Name = c.namespace, c.name
			if got := i.RunName(); got != c.want {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.want, got)
			}
		})
	}
}

// TestRunNames: a run has one name, which nobody shares, which Kubernetes takes, and which people recognize.
func TestRunNames(t *testing.T) {
	t.Parallel()
	hash := regexp.MustCompile(`^(.+)-[0-9a-f]{10}$`)
	rapid.Check(t, func(t *rapid.T) {
		i := identities().Draw(t, "identity")
		name := i.RunName()
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			t.Fatalf("%q is no name of a host: %v", name, wrong)
		}
		parts := hash.FindStringSubmatch(name)
		if parts == nil {
			t.Fatalf("%q does not end with a hash", name)
		}
		readable, full := parts[1], strings.ReplaceAll(i.Namespace+"-"+i.Name, ".", "-")
		if len(full) <= 52 && readable != full {
			t.Fatalf("%q does not begin with %q, for which there is room", name, full)
		}
		if !strings.HasPrefix(readable, i.Namespace[:min(26, len(i.Namespace))]) &&
			!strings.HasPrefix(i.Namespace, readable) {
			t.Fatalf("%q does not begin with namespace %q", name, i.Namespace)
		}
		same := i
		same.Generation, same.Installation = i.Generation+1, "elsewhere"
		if same.RunName() != name {
			t.Fatalf("%q is called %q after a change that makes no other run", name, same.RunName())
		}
		for what, change := range map[string]func(*Identity){
			"uid": func(i *Identity) { i.UID = types.UID("f" + string(i.UID[1:])) }, "job": func(i *Identity) { i.JobID += "x" },
			"operation": func(i *Identity) { i.Operation += "x" },
		} {
			other := i
			change(&other)
			if other != i && other.RunName() == name {
				t.Fatalf("the run with another %s has the same name %q", what, name)
			}
		}
	})
}

// TestWhatKubernetesTakes: whatever a deploy item and its job are called, the objects of its runs are valid.
func TestWhatKubernetesTakes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		i := identities().Draw(t, "identity")
		for _, o := range objects(t, i) {
			if wrong := validation.IsDNS1123Subdomain(o.GetName()); len(wrong) > 0 {
				t.Fatalf("%q is no name: %v", o.GetName(), wrong)
			}
			if o.GetNamespace() != namespace || !strings.HasPrefix(o.GetName(), i.RunName()) {
				t.Fatalf("%s/%s is not found by the name of its run, %q in namespace %s", o.GetNamespace(), o.GetName(),
					i.RunName(), namespace)
			}
			for key, value := range o.GetLabels() {
				if wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(wrong) > 0 {
					t.Fatalf("%s: label %s=%q: %v", o.GetName(), key, value, wrong)
				}
			}
			for key := range o.GetAnnotations() {
				if wrong := validation.IsQualifiedName(strings.ToLower(key)); len(wrong) > 0 {
					t.Fatalf("%s: annotation %s: %v", o.GetName(), key, wrong)
				}
			}
		}
	})
}

func TestNoInstallation(t *testing.T) {
	t.Parallel()
	nowhere := shop()
	nowhere.Installation = ""
	if got := nowhere.Labels(PartPod)[InstallationLabel]; got == "" {
		t.Error("expected a label to select the objects of no installation, but found none")
	}
}
