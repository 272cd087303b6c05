package apiserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type answer func(*http.Request) (*http.Response, error)

func (f answer) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// told returns what plainSpeech makes of the answer of an API server to a body that was sent to a path.
func told(t *testing.T, path, sent string, code int, content string) string {
	t.Helper()
	next := answer(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(content)),
		}, nil
	})
	method := http.MethodPost
	if sent == "" {
		method = http.MethodDelete
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "https://target.example.org"+path, strings.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&plainSpeech{next: next}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func rewritten(t *testing.T, path, sent string, given metav1.Status) metav1.Status {
	t.Helper()
	given.Status = metav1.StatusFailure
	content, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	var status metav1.Status
	if err := json.Unmarshal([]byte(told(t, path, sent, int(given.Code), string(content))), &status); err != nil {
		t.Fatal(err)
	}
	return status
}

// opaque is a value that JSON cannot hold, as the internal types of API servers are.
type opaque struct {
	Name string
	Args []string
	Next *opaque
	Call func()
}

// TestFieldErrors: an error about fields tells the field, the kind of error and the explanation, once.
// Rule (SECURITY.md#secrets): An API server's error about a field shows field and explanation, and not the value.
func TestFieldErrors(t *testing.T) {
	t.Parallel()
	at := field.NewPath("spec").Child("template")
	template := map[string]any{"env": []any{map[string]any{"name": "A", "value": "hunter22: \"x\"}\nfield: wrong"}}}
	for name, test := range map[string]struct {
		err  *field.Error
		want string
	}{
		"object":        {field.Invalid(at, template, "field is immutable"), "spec.template: field is immutable"},
		"list":          {field.Invalid(at, []string{"hunter22", "b: c"}, "must be one"), "spec.template: must be one"},
		"text":          {field.Invalid(at, "hunter22\": field: \"b", "must be a: b"), "spec.template: must be a: b"},
		"number":        {field.Invalid(at, int64(8675309), "must be less than 5"), "spec.template: must be less than 5"},
		"null":          {field.Invalid(at, nil, "must be set"), "spec.template: must be set"},
		"not explained": {field.Invalid(at, template, ""), "spec.template: Invalid value"},
		"without value": {field.Invalid(at, field.OmitValueType{}, "must be: set"), "spec.template: must be: set"},
		"struct": {
			field.Invalid(at, opaque{Name: "hunter22", Args: []string{"a: b", "}"}}, "is wrong"),
			"spec.template: is wrong",
		},
		"pointer": {field.Invalid(at, &opaque{Name: "hunter22"}, "is wrong"), "spec.template: is wrong"},
		"structs": {field.Invalid(at, []opaque{{Name: "hunter22"}}, "is wrong"), "spec.template: is wrong"},
		"map": {
			field.Invalid(at, map[string]opaque{"a": {Name: "hunter22"}}, "is wrong"), "spec.template: is wrong",
		},
		"unsupported": {
			field.NotSupported(at, "hunter22", []string{"TCP", "UDP"}),
			`spec.template: Unsupported value: supported values: "TCP", "UDP"`,
		},
		"duplicate": {field.Duplicate(at, template), "spec.template: Duplicate value"},
		"not found": {field.NotFound(at, "hunter22"), "spec.template: Not found"},
		"too many":  {field.TooMany(at, 12, 10), "spec.template: Too many: must have at most 10 items"},
		"required":  {field.Required(at, "is needed"), "spec.template: Required value: is needed"},
		"too long":  {field.TooLong(at, "hunter22", 5), "spec.template: Too long: may not be more than 5 bytes"},
		"forbidden": {field.Forbidden(at, "no"), "spec.template: Forbidden: no"},
		"forbidden diff": {
			field.Forbidden(at, "may not change\n  core.PodSpec{\n- Env: \"hunter22\",\n  }"),
			"spec.template: Forbidden: may not change",
		},
		"in explanation": {
			field.Invalid(at, "x", `it is {"env":[{"value":"hunter22"}]}, which is wrong`),
			"spec.template: it is {…}, which is wrong",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := apierrors.NewInvalid(
				schema.GroupKind{Group: "batch", Kind: "Job"}, "init", field.ErrorList{test.err, test.err},
			).ErrStatus
			found := rewritten(t, "/apis/batch/v1/namespaces/n/jobs", `{"kind":"Job"}`, given)
			if want := `Job.batch "init" is invalid: ` + test.want; found.Message != want {
				t.Errorf("expected %q, but found %q", want, found.Message)
			}
			if found.Reason != given.Reason || found.Code != given.Code || found.Details.Kind != "Job" ||
				found.Details.Name != "init" ||
				found.Details.Causes[0].Type != given.Details.Causes[0].Type || found.Details.Causes[0].Field != at.String() {
				t.Errorf("expected reason, code and causes to stay, but found %+v", found)
			}
			for _, c := range found.Details.Causes {
				if strings.Contains(c.Message, "hunter22") {
					t.Errorf("a value is in a cause: %s", c.Message)
				}
			}
		})
	}
}

// TestRefusals: other texts keep the words of their authors, without quotes.
// Rule (SECURITY.md#secrets): Errors of API servers and webhooks quote no object.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const denied = `admission webhook "w.example.org" denied the request: `
	secret := `{"kind":"Secret","metadata":{"name":"s"},"data":{"password":"aHVudGVyMjI="}}`
	pod := `{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"app","image":"nginx:1",` +
		`"env":[{"name":"A","value":"hunter22"}]}]}}`
	for name, test := range map[string]struct {
		path, sent string
		given      metav1.Status
		want       string
	}{
		"unknown field": {"/api/v1/pods", pod, metav1.Status{Code: 400, Reason: "BadRequest",
			Message: `Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.contaners", ` +
				`duplicate field "spec.nodeName"`},
			`Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.contaners", ` +
				`duplicate field "spec.nodeName"; correct these fields or leave them out`},
		"wrong type": {"/api/v1/secrets", secret, metav1.Status{Code: 400, Reason: "BadRequest",
			Message: `Secret in version "v1" cannot be handled as a Secret: json: cannot unmarshal string "hunter22" into Go ` +
				`struct field Secret.data of type map[string][]uint8`},
			`Secret in version "v1" cannot be handled as a Secret: json: cannot unmarshal string into Go struct field ` +
				`Secret.data of type map[string][]uint8`},
		"quantity": {"/api/v1/pods", pod, metav1.Status{Code: 400, Reason: "BadRequest",
			Message: `Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression ` +
				`'^([+-]?[0-9.]+)$', found "hunter22"`},
			`Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '^([+-]?[0-9.]+)$',` +
				` found "…"`},
		"webhook that is away": {"/api/v1/pods", pod, metav1.Status{Code: 500, Reason: "InternalError",
			Message: `Internal error occurred: failed calling webhook "w.example.org": failed to call webhook: Post ` +
				`"https://w.n.svc:443/x?timeout=10s": dial tcp: connection refused`},
			`Internal error occurred: failed calling webhook "w.example.org": failed to call webhook: Post ` +
				`"https://w.n.svc:443/x?timeout=10s": dial tcp: connection refused`},
		"typed conversion": {"/api/v1/pods", pod, metav1.Status{Code: 500,
			Message: "failed to create typed patch object (n/p; /v1, Kind=Pod): errors:\n  .spec.contaners: field not " +
				"declared in schema\n  .spec.nodeName: expected string, got &{map[a:hunter22]}"},
			`unknown field "spec.contaners", .spec.nodeName: expected string; correct these fields or leave them out`},
		"denied": {"/api/v1/pods", pod, metav1.Status{Code: 403, Reason: "Forbidden",
			Message: denied + `image nginx:1 of container "app" is not from our registry; ask team "security" for an exception`},
			denied + `image nginx:1 of container "app" is not from our registry; ask team "security" for an exception`},
		"denied with the object": {"/api/v1/pods", pod, metav1.Status{Code: 403, Reason: "Forbidden",
			Message: denied + `no: ` + pod + ` has no label`}, denied + `no: {…} has no label`},
		"denied with a field error": {"/api/v1/pods", pod, metav1.Status{Code: 403, Reason: "Forbidden",
			Message: denied + `spec.password: Invalid value: "hunter23": must be longer`},
			denied + `spec.password: Invalid value: must be longer`},
		"denied with a value": {"/api/v1/pods", pod, metav1.Status{Code: 403, Reason: "Forbidden",
			Message: denied + `A must not be hunter22`}, denied + `A must not be ***`},
		"denied with a secret": {"/api/v1/namespaces/n/secrets/s", secret, metav1.Status{Code: 403, Reason: "Forbidden",
			Message: denied + `hunter22 (aHVudGVyMjI=) is in a list`}, denied + `*** (***) is in a list`},
		"quota": {"/api/v1/pods", pod, metav1.Status{Code: 403, Reason: "Forbidden",
			Message: `pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`},
			`pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`},
		"permission": {"/api/v1/pods", "", metav1.Status{Code: 403, Reason: "Forbidden",
			Message: `pods "p" is forbidden: User "u" cannot delete resource "pods" in API group "" in the namespace "n"`},
			`pods "p" is forbidden: User "u" cannot delete resource "pods" in API group "" in the namespace "n"`},
		"patch": {"/api/v1/namespaces/n/pods/p", pod, metav1.Status{Code: 422, Reason: "Invalid",
			Message: `Pod "p" is invalid: patch: Invalid value: "{\"spec\":\"hunter22\"}": json: cannot unmarshal string ` +
				`"hunter22" into Go struct field Pod.spec of type v1.PodSpec`,
			Details: &metav1.StatusDetails{Kind: "Pod", Name: "p", Causes: []metav1.StatusCause{{
				Type: "FieldValueInvalid", Field: "patch",
				Message: `Invalid value: "{\"spec\":\"hunter22\"}": json: cannot unmarshal string "hunter22" into Go struct ` +
					`field Pod.spec of type v1.PodSpec`}}}},
			`Pod "p" is invalid: patch: json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := rewritten(t, test.path, test.sent, test.given); found.Message != test.want {
				t.Errorf("expected\n%s, but found\n%s", test.want, found.Message)
			}
		})
	}
}

// TestRefusalsAreBounded: also what is no answer of an API server is.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	if found := told(t, "/", "", 502, strings.Repeat("word ", 1<<14)); len(found) > 3<<10 {
		t.Errorf("found a text of %d bytes", len(found))
	}
}

// FuzzRefusals: no answer of an API server stops a job.
func FuzzRefusals(f *testing.F) {
	f.Add("failed to create typed patch object (a): errors:\n .a: expected map, got &{[x]}", `Invalid value: map[a]b{`)
	f.Add("map[a]{", "Invalid value: a.B{[(")
	f.Fuzz(func(t *testing.T, message, cause string) {
		for _, code := range []int32{400, 403, 422, 500} {
			rewritten(t, "/", `{"a":"b"}`, metav1.Status{Code: code, Reason: "Invalid", Message: message,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: cause}}}})
		}
	})
}

// TestNames: an error without the name of its object gets it for callers without names in their own errors.
func TestNames(t *testing.T) {
	t.Parallel()
	const pod = `{"kind":"Pod","metadata":{"name":"p"}}`
	bad := metav1.Status{Code: 400, Reason: metav1.StatusReasonBadRequest}
	for name, c := range map[string]struct {
		ctx                         func(context.Context) context.Context
		method, path, message, want string
		status                      metav1.Status
	}{
		"new":      {WithNames, http.MethodPost, "/api/v1/namespaces/n/pods", "no", `"p": no`, bad},
		"existing": {WithNames, http.MethodPatch, "/api/v1/namespaces/n/pods/q", "no", `"q": no`, bad},
		"named":    {WithNames, http.MethodPatch, "/api/v1/namespaces/n/pods/q", `name "q" is bad`, `name "q" is bad`, bad},
		"others":   {WithNames, http.MethodPatch, "/api/v1/namespaces/n/pods/q", "no", "no", metav1.Status{Code: 403}},
		"unasked": {
			func(ctx context.Context) context.Context { return ctx }, http.MethodPatch, "/api/v1/namespaces/n/pods/q",
			"no", "no", bad,
		},
	} {
		req, err := http.NewRequestWithContext(
			c.ctx(t.Context()), c.method, "https://target.example.org"+c.path, strings.NewReader(pod))
		if err != nil {
			t.Fatal(err)
		}
		status := c.status
		status.Message = c.message
		newRefusal(req).rewriteStatus(&status)
		if status.Message != c.want {
			t.Errorf("%s: expected %q, but found %q", name, c.want, status.Message)
		}
		want := `pods "q"`
		if c.method == http.MethodPost {
			want = `pods "p"`
		}
		if got := Describe(req); got != want {
			t.Errorf("%s: expected %s, but found %s", name, want, got)
		}
	}
}
