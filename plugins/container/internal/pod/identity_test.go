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
			Installation: rapid.SampledFrom([]string{"", "here", string(shop().UID)}).Draw(t, "installation"),
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

// A plugin updated while a Pod runs has to find it by its name. Each of two long names has its half.
func TestRunNameStaysWhatItIs(t *testing.T) {
	t.Parallel()
	teams, shops := strings.Repeat("team", 15), strings.Repeat("shop", 20)
	for _, c := range []struct{ namespace, name, want string }{
		{"team-a", "shop", "team-a-shop-1774311664"},
		{"team-a", "web.shop", "team-a-web-shop-1774311664"},
		{"team-a", shops, "team-a-shopshopshopshopshopshopshopshopshopshopshops-1774311664"},
		{teams, "shop", "teamteamteamteamteamteamteamteamteamteamteamtea-shop-1774311664"},
		{teams, shops, "teamteamteamteamteamteamte-shopshopshopshopshopshops-1774311664"},
		{"a", strings.Repeat("b", 49) + ".c", "a-" + strings.Repeat("b", 49) + "-1774311664"},
	} {
		i := shop()
		i.Namespace, i.Name = c.namespace, c.name
		if got := i.RunName(); got != c.want {
			t.Errorf("%s/%s: expected %q, but found %q", c.namespace, c.name, c.want, got)
		}
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
		others := []Identity{i, i, i}
		others[0].UID, others[1].JobID, others[2].Operation = "f"+i.UID[1:], i.JobID+"x", i.Operation+"x"
		for _, other := range others {
			if other != i && other.RunName() == name {
				t.Fatalf("the other run %+v has the same name %q", other, name)
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
			wrong := validation.IsDNS1123Subdomain(o.GetName())
			for key, value := range o.GetLabels() {
				wrong = slices.Concat(wrong, validation.IsQualifiedName(key), validation.IsValidLabelValue(value))
			}
			for key := range o.GetAnnotations() {
				wrong = append(wrong, validation.IsQualifiedName(strings.ToLower(key))...)
			}
			// An object is found by the name of its run.
			if len(wrong) > 0 || o.GetNamespace() != namespace || !strings.HasPrefix(o.GetName(), i.RunName()) {
				t.Fatalf("run %s has %s/%s with labels %v and annotations %v: %v", i.RunName(), o.GetNamespace(),
					o.GetName(), o.GetLabels(), o.GetAnnotations(), wrong)
			}
		}
	})
}
