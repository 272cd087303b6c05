package sdk_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// tracked notes the traces that its calls belong to.
type tracked struct {
	fake

	seen *[]trace.SpanContext
}

func (d tracked) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHook(func(
		ctx context.Context, _ *v1alpha1.DeployItem, _ *v1alpha1.Target, _ hook.Type,
	) (*hook.Result, error) {
		*d.seen = append(*d.seen, trace.SpanContextFromContext(ctx))
		return nil, nil
	}, hook.Start)
}

func TestCallsContinueTheHostsTrace(t *testing.T) {
	t.Parallel()
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, tc := range []struct {
		reason, traceparent string
		traced              bool
	}{
		{"as W3C writes it", "00-" + id + "-" + span + "-01", true},
		{"a host that does not trace", "", false},
		{"what cannot be read", "00-" + id, false},
	} {
		var seen []trace.SpanContext
		d := tracked{seen: &seen, fake: fake{reconcile: func(ctx context.Context, _ *sdk.Request) (*sdk.Response, error) {
			seen = append(seen, trace.SpanContextFromContext(ctx))
			return nil, nil
		}}}
		plugin := sdktest.New(t, d, append(options(), sdk.HookedTypes("example.org/test"))...)
		ctx := t.Context()
		if tc.traceparent != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", tc.traceparent)
		}
		plugin.Reconcile(ctx, emptyCall())
		if _, err := plugin.RunHooks(ctx, hook.Start, nil, nil); err != nil || len(seen) != 2 {
			t.Errorf("%s: error %v, %v", tc.reason, err, seen)
		}
		for i, got := range seen {
			isHosts := got.TraceID().String() == id && got.SpanID().String() == span && got.IsSampled() && got.IsRemote()
			if got.IsValid() != tc.traced || isHosts != tc.traced {
				t.Errorf("%s: call %d: %+v", tc.reason, i, got)
			}
		}
	}
}
