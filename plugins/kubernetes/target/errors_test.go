package target_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "configmaps"}
	const wrong, retried = v1alpha1.ErrorConfigurationProblem, v1alpha1.ErrorCode("")
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Message: "denied the request"}}
	refused := &url.Error{Op: "Get", URL: "https://host:1/api/very/long", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		err    error
		code   v1alpha1.ErrorCode
		text   string
		silent bool
		pause  time.Duration
	}{
		"wrong credentials stay wrong": {
			err: apierrors.NewUnauthorized("no"), code: v1alpha1.ErrorUnauthorized,
			text: "target cluster host:1 does not accept the credentials",
		},
		"a permission may come": {err: apierrors.NewForbidden(resource, "a", errors.New("no")), text: "forbidden"},
		// Rule (manifest.md#managed-resources): A refusal with the reason `Invalid` fails the job at once.
		"invalid": {err: apierrors.NewInvalid(schema.GroupKind{Kind: "A"}, "a", nil), code: wrong, text: "invalid"},
		// Rule (manifest.md#managed-resources): A refusal with the reason `BadRequest` fails the job at once.
		"bad request": {err: apierrors.NewBadRequest("cannot read it"), code: wrong, text: "cannot read it"},
		// Rule (manifest.md#managed-resources): A denial by a webhook is retried.
		"a webhook may be another one next time": {err: denied, code: retried, text: "denied"},
		"the kind may be defined":                {err: &meta.NoKindMatchError{}, text: "host:1"},
		// The URL is left out.
		"unreachable": {err: refused, text: "cannot reach target cluster host:1: connection refused", silent: true},
		"late": {
			err:  apiserver.LateError{After: time.Second},
			text: "cannot reach target cluster host:1: no answer for 1s", silent: true,
		},
		"busy": {
			err:  &apiserver.BusyError{After: time.Minute, Code: 429},
			text: "target cluster host:1: it asks to wait 1m0s (HTTP 429)", silent: true, pause: time.Minute,
		},
		"the end of the call is not the target's fault": {err: context.Canceled, text: "context canceled"},
		"a missing namespace may come": {
			err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a"), text: "not found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := target.Explain("host:1", fmt.Errorf("outer: %w", c.err))
			var codes []v1alpha1.ErrorCode
			if c.code != retried {
				codes = append(codes, c.code)
			}
			if diff := cmp.Diff(codes, sdk.Codes(got)); diff != "" {
				t.Errorf("codes: -want +got:\n%s", diff)
			}
			if !strings.Contains(got.Error(), c.text) || strings.Contains(got.Error(), "very/long") {
				t.Errorf("got %q", got)
			}
			if !errors.Is(got, c.err) && name != "unreachable" {
				t.Error("the cause is lost")
			}
			known, ok := errors.AsType[*sdk.Error](got)
			if ok && (known.TargetSilent != c.silent || known.RetryAfter != c.pause) {
				t.Errorf("expected a silent target: %t, and the pause %s, but found %#v", c.silent, c.pause, known)
			}
		})
	}
	known := &sdk.Error{Reason: apiserver.ReasonNotPermitted, Err: errors.New("not picked up")}
	unsent := &url.Error{Op: "Put", URL: "https://host:1/api", Err: known}
	if got := target.Explain("host:1", unsent); !errors.Is(got, known) || strings.Contains(got.Error(), "host:1") {
		t.Errorf("an unsent request: expected the reason against it, but found %v", got)
	}
	if target.Explain("host:1", nil) != nil {
		t.Error("no error must stay none")
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	if target.Collect([]error{nil, nil}) != nil {
		t.Error("expected no error")
	}
	var errs []error
	for i := range 22 {
		errs = append(errs, nil, fmt.Errorf("error %d", i))
	}
	errs = append(errs, sdk.ConfigurationError("Reason", "last"))
	got := target.Collect(errs)
	if text := got.Error(); !strings.HasPrefix(text, "error 0; error 1; ") ||
		!strings.HasSuffix(text, "error 19; and 3 more") {
		t.Errorf("expected the first errors and how many more there are, but found %q", got)
	}
	if len(sdk.Codes(got)) != 1 {
		t.Error("the codes of errors that are not listed must count")
	}
}

func TestWithWaysOut(t *testing.T) {
	t.Parallel()
	const wayOut = `annotate the deploy item with landscaper.gardener.cloud/delete-without-uninstall: "true"`
	unreachable := target.Explain(
		"host:1", &url.Error{Op: "Get", URL: "https://host:1", Err: errors.New("connection refused")},
	)
	gone := &sdk.Error{Reason: sdk.ReasonTargetMissing, Err: errors.New("missing")}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("no"))
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"the cluster may be gone for good":           {fmt.Errorf("delete ConfigMap a/b: %w", unreachable), true},
		"the credentials may be gone for good":       {target.Explain("host:1", apierrors.NewUnauthorized("no")), true},
		"the Target may be gone for good":            {gone, true},
		"a target that refuses one object is there":  {target.Explain("host:1", forbidden), false},
		"what another error means is not known here": {context.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := target.WithWaysOut(c.err)
			if strings.Contains(got.Error(), wayOut) != c.want || !errors.Is(got, c.err) {
				t.Errorf("expected a way out: %t, but got %q", c.want, got)
			}
			if diff := cmp.Diff(sdk.Codes(c.err), sdk.Codes(got)); diff != "" {
				t.Errorf("codes: -want +got:\n%s", diff)
			}
		})
	}
	if target.WithWaysOut(nil) != nil {
		t.Error("no error must stay none")
	}
}
