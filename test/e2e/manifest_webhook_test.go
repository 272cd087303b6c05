package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// gatekeeper is an admission webhook of the target that decides on the ConfigMaps of a namespace.
type gatekeeper struct {
	mu sync.Mutex
	// refusal is what it says against them; nil if it allows them.
	refusal *metav1.Status
	// hangs: it does not answer.
	hangs bool
}

// newGatekeeper starts a webhook that refuses everything, and returns when the API server asks it.
func newGatekeeper(t *testing.T, namespace string) *gatekeeper {
	t.Helper()
	g := &gatekeeper{}
	server := httptest.NewTLSServer(g)
	t.Cleanup(server.Close)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "gatekeeper.example.org",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To[int32](1),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	create(t, configuration)
	t.Cleanup(func() {
		if err := admin.Delete(context.WithoutCancel(t.Context()), configuration); err != nil {
			t.Error(err)
		}
	})

	g.refuse(&metav1.Status{Message: "nobody may yet"})
	eventually(t, "the API server to ask the webhook", func(ctx context.Context) (string, error) {
		o := &unstructured.Unstructured{Object: configMapWith(namespace, "probe", nil)}
		if err := admin.Create(ctx, o, client.DryRunAll); err == nil {
			return "it does not", nil
		}
		return "", nil
	})
	return g
}

func (g *gatekeeper) refuse(refusal *metav1.Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusal, g.hangs = refusal, false
}

func (g *gatekeeper) allow() { g.refuse(nil) }

func (g *gatekeeper) hang() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hangs = true
}

func (g *gatekeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "expected an AdmissionReview", http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	refusal, hangs := g.refusal, g.hangs
	g.mu.Unlock()
	if hangs {
		<-r.Context().Done() // the API server has given up
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: refusal == nil, Result: refusal}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// TestWebhookRejects: who is rejected tries again, as a webhook may decide otherwise, unless it says that the object is wrong.
func TestWebhookRejects(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	for name, c := range map[string]struct {
		reason string
		set    func(*gatekeeper)
		final  bool
		says   []string
	}{
		"denial": {
			reason: "a webhook that gives no reason may allow it next time",
			set:    func(g *gatekeeper) { g.refuse(&metav1.Status{Message: "only blue ones"}) },
			says:   []string{"gatekeeper.example.org", "only blue ones"},
		},
		"denial-400": {
			reason: "a status code alone is what many webhooks send, whatever is the matter",
			set:    func(g *gatekeeper) { g.refuse(&metav1.Status{Message: "only blue ones", Code: http.StatusBadRequest}) },
			says:   []string{"gatekeeper.example.org", "only blue ones"},
		},
		"timeout": {
			reason: "a webhook that does not answer may do so next time",
			set:    (*gatekeeper).hang,
			says:   []string{"failed calling webhook", "gatekeeper.example.org"},
		},
		"invalid-400": {
			reason: "the webhook says that the object is wrong",
			set: func(g *gatekeeper) {
				g.refuse(&metav1.Status{Message: "no such colour", Code: http.StatusBadRequest, Reason: metav1.StatusReasonInvalid})
			},
			final: true, says: []string{"gatekeeper.example.org", "no such colour"},
		},
		"invalid-422": {
			reason: "the same with the code of the API server",
			set: func(g *gatekeeper) {
				g.refuse(&metav1.Status{Message: "no such colour", Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid})
			},
			final: true, says: []string{"gatekeeper.example.org", "no such colour"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			createTarget(t, namespace, "my-target")
			g := newGatekeeper(t, namespace)
			item := withTarget(newItem(namespace, "item", manifestType, configWith(t, nil, configMapWith(namespace, "a", nil))), "my-target")
			create(t, item)
			c.set(g)
			job := setJob(t, item)
			item = waitLastError(t, item, c.says[0])
			mustMention(t, "the error", item.Status.LastError.Message, append(c.says, "apply ConfigMap "+namespace+"/a")...)
			if c.final {
				item = waitFinished(t, item, job)
				if !slices.Contains(item.Status.LastError.Codes, v1alpha1.ErrorConfigurationProblem) || item.Status.LastError.Reason != "ObjectRejected" {
					t.Errorf("%s: found %+v", c.reason, item.Status.LastError)
				}
				g.allow()
				carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
				return
			}
			if item.Status.JobIDFinished == job {
				t.Fatalf("%s, but found %s", c.reason, describe(item))
			}
			g.allow()
			if item = waitFinished(t, item, job); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
				t.Errorf("%s, but found %s", c.reason, describe(item))
			}
		})
	}
	t.Run("deletion", func(t *testing.T) {
		t.Parallel()
		rejectDeletion(t)
	})
}

// rejectDeletion: a deletion that a webhook rejects says so, and goes on when it is allowed.
func rejectDeletion(t *testing.T) {
	t.Helper()
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	object := configMapWith(namespace, "a", nil)
	item := withTarget(newItem(namespace, "item", manifestType, configWith(t, nil, object)), "my-target")
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	g := newGatekeeper(t, namespace)
	g.refuse(&metav1.Status{Message: "there is still somebody inside"})
	deleteObject(t, item)
	setJob(t, item)
	says := func(i *v1alpha1.DeployItem) string {
		said := conditionOf(i, "Reconciling").Message
		if i.Status.LastError != nil {
			said += i.Status.LastError.Message
		}
		return said
	}
	item = waitFor(t, item, "rejected", func(i *v1alpha1.DeployItem) bool { return strings.Contains(says(i), "there is still somebody inside") })
	mustMention(t, "the item", says(item), "ConfigMap "+namespace+"/a", "gatekeeper.example.org")
	if live(t, object) == nil {
		t.Fatal("the object is gone")
	}
	g.allow()
	waitGone(t, item)
	if live(t, object) != nil {
		t.Error("expected the object to be gone")
	}
}
