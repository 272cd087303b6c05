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

	"github.com/pergola-deploy/pergola/plugins/internal/apiserver"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "configmaps"}
	config := []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}
	for name, c := range map[string]struct {
		reason string
		err    error
		codes  []v1alpha1.ErrorCode
		text   string
		silent bool
	}{
		"unauthorized": {
			reason: "wrong credentials stay wrong", err: apierrors.NewUnauthorized("no"),
			codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnauthorized},
			text:  "target cluster host:1 does not accept the credentials",
		},
		"forbidden": {
			reason: "the permission may be granted while the job has time",
			err:    apierrors.NewForbidden(resource, "a", errors.New("no")), text: "forbidden",
		},
		// Rule (manifest.md#managed-resources): A refusal with the reason `Invalid` fails the job at once.
		"invalid": {
			reason: "the object is wrong", err: apierrors.NewInvalid(schema.GroupKind{Kind: "A"}, "a", nil), codes: config,
			text: "invalid",
		},
		// Rule (manifest.md#managed-resources): A refusal with the reason `BadRequest` fails the job at once.
		"bad request": {
			reason: "the object is wrong", err: apierrors.NewBadRequest("cannot read it"), codes: config,
			text: "cannot read it",
		},
		// Rule (manifest.md#managed-resources): A denial by a webhook is retried.
		"webhook": {
			reason: "a denial by a webhook has the status of a bad request but may be another one next time",
			err:    &apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Message: "denied the request"}}, text: "denied",
		},
		"unknown kind": {
			reason: "the kind may be defined while the job has time", err: &meta.NoKindMatchError{}, text: "host:1",
		},
		"unreachable": {
			reason: "a target that is down may come back; the URL is left out",
			err:    &url.Error{Op: "Get", URL: "https://host:1/api/very/long", Err: errors.New("connection refused")},
			text:   "cannot reach target cluster host:1: connection refused", silent: true,
		},
		"late": {
			reason: "a target without the end of an answer may come back", err: apiserver.LateError{After: time.Second},
			text: "cannot reach target cluster host:1: no answer for 1s", silent: true,
		},
		"busy": {
			reason: "a target may ask for a pause", err: &apiserver.BusyError{After: time.Minute, Code: 429},
			text: "target cluster host:1: it asks to wait 1m0s (HTTP 429)", silent: true,
		},
		"canceled": {reason: "an end of the call is not the target's fault", err: context.Canceled, text: "context canceled"},
		"not found": {
			reason: "a missing namespace may come",
			err:    apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a"), text: "not found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := target.Explain("host:1", fmt.Errorf("outer: %w", c.err))
			if diff := cmp.Diff(c.codes, sdk.Codes(got)); diff != "" {
				t.Errorf("%s: codes: -want +got:\n%s", c.reason, diff)
			}
			if !strings.Contains(got.Error(), c.text) || strings.Contains(got.Error(), "very/long") {
				t.Errorf("%s: got %q", c.reason, got)
			}
			if !errors.Is(got, c.err) && !strings.Contains(name, "unreachable") {
				t.Errorf("%s: the cause is lost", c.reason)
			}
			if known := new(sdk.Error); errors.As(got, &known) && known.TargetSilent != c.silent {
				t.Errorf("%s: expected a silent target: %t", c.reason, c.silent)
			} else if name == "busy" && known.RetryAfter != time.Minute {
				t.Errorf("%s: expected the pause of the target, but found %s", c.reason, known.RetryAfter)
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
	for name, c := range map[string]struct {
		reason string
		err    error
		want   bool
	}{
		"unreachable": {
			reason: "the cluster may be gone for good", err: fmt.Errorf("delete ConfigMap a/b: %w", unreachable),
			want: true,
		},
		"unauthorized": {
			reason: "the credentials may be gone for good", err: target.Explain("host:1", apierrors.NewUnauthorized("no")),
			want: true,
		},
		"no target": {
			reason: "the Target may be gone for good",
			err:    &sdk.Error{Reason: sdk.ReasonTargetMissing, Err: errors.New("missing")}, want: true,
		},
		"one object": {
			reason: "a target that refuses one object is there",
			err: target.Explain(
				"host:1", apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("no")),
			),
		},
		"another error": {reason: "what it means is not known here", err: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := target.WithWaysOut(c.err)
			if strings.Contains(got.Error(), wayOut) != c.want {
				t.Errorf("%s: got %q", c.reason, got)
			}
			if !errors.Is(got, c.err) {
				t.Errorf("%s: the cause is lost", c.reason)
			}
			if diff := cmp.Diff(sdk.Codes(c.err), sdk.Codes(got)); diff != "" {
				t.Errorf("%s: codes: -want +got:\n%s", c.reason, diff)
			}
		})
	}
	if target.WithWaysOut(nil) != nil {
		t.Error("no error must stay none")
	}
}
