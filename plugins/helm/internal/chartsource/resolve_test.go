package chartsource_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

// archive is one that a resolver hands over.
type archive struct {
	io.Reader
	mu     sync.Mutex
	closed int
}

func (a *archive) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed++
	return nil
}

func archiveOf(content []byte) *archive { return &archive{Reader: bytes.NewReader(content)} }

func TestResolver(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{Auth: chartserver.Basic, User: user, Password: password})
	push(t, registry, "plain", "1.0.0", plain)
	inRegistry := ofRef(registry.Ref("plain", "1.0.0"))
	const problem = v1alpha1.ErrorConfigurationProblem
	tests := map[string]struct {
		reason   string
		resolved *chart.Resolved
		err      error
		// want is the reason of an error; empty for none.
		want string
		code v1alpha1.ErrorCode
		text string
	}{
		"Chart":       {reason: "it is fetched with the credentials of the call", resolved: &chart.Resolved{Chart: &inRegistry}},
		"Archive":     {reason: "it is taken as it is", resolved: &chart.Resolved{Archive: archiveOf(plain)}},
		"WrongDigest": {reason: "it has another", resolved: &chart.Resolved{Archive: archiveOf(plain), Digest: digestOf(other)}, want: chartsource.ReasonDigestMismatch, code: problem, text: "digest"},
		"NoArchive":   {reason: "it is something else", resolved: &chart.Resolved{Archive: archiveOf([]byte("{}")), From: "component x"}, want: chartsource.ReasonArchiveInvalid, code: problem, text: "component x: expected a gzip"},
		"Broken":      {reason: "reading may fail", resolved: &chart.Resolved{Archive: &archive{Reader: broken{}}}, want: chartsource.ReasonResolveFailed, text: "the tape is torn"},
		"Neither":     {reason: "one is needed", resolved: &chart.Resolved{}, want: chartsource.ReasonResolveFailed, text: "neither"},
		"Again":       {reason: "there is no end to that", resolved: &chart.Resolved{Chart: &helmv1alpha1.Chart{ResourceRef: "x"}}, want: chartsource.ReasonSourceInvalid, code: problem, text: "again"},
		"Invalid":     {reason: "it cannot be fetched", resolved: &chart.Resolved{Chart: &helmv1alpha1.Chart{}}, want: chartsource.ReasonSourceInvalid, code: problem, text: "Required"},
		"Missing": {
			reason: "what is wrong is about the chart that was found", resolved: &chart.Resolved{Chart: &helmv1alpha1.Chart{Ref: registry.Ref("nothing", "1")}},
			want: chartsource.ReasonNotFound, text: registry.Ref("nothing", "1"),
		},
		"Error": {reason: "without a code it is tried again", err: errors.New("out of order"), want: chartsource.ReasonResolveFailed, text: "out of order"},
		"Code": {
			reason: "a code decides", err: sdk.ConfigurationError("NoComponent", "there is none"),
			want: chartsource.ReasonResolveFailed, code: problem, text: "there is none",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item, asked := &v1alpha1.DeployItem{}, 0
			resolver := chart.ResolverFunc(func(_ context.Context, req *chart.ResolveRequest) (*chart.Resolved, error) {
				asked++
				if req.Field != chart.ResourceRef || req.Chart.ResourceRef != "eA==" || req.DeployItem != item || req.Context == nil || req.Log == nil || req.Credentials == nil {
					t.Errorf("expected all of the request, but found %+v", req)
				}
				return test.resolved, test.err
			})
			w := newWorldWith(t, chartsource.Config{
				Resolvers:    map[chart.Field]chart.Resolver{chart.ResourceRef: resolver},
				Config:       fetch.Config{Registries: []fetch.Registry{{Host: registry.Host(), CAData: registry.CA()}}},
				ArchiveBytes: 1 << 20,
			})
			found, err := w.Fetch(t.Context(), &chartsource.Request{
				Source: parse(t, helmv1alpha1.Chart{ResourceRef: "eA=="}), Credentials: loginFor(registry.Host()), DeployItem: item,
			})
			switch {
			case test.want != "":
				isError(t, err, test.want, test.code, test.text)
			case err != nil || found.Digest != digestOf(plain):
				t.Errorf("%s: expected the chart, but found %+v and %v", test.reason, found, err)
			default:
				found.Release()
			}
			if test.resolved != nil && test.resolved.Archive != nil {
				if a := test.resolved.Archive.(*archive); a.closed != 1 {
					t.Errorf("expected the archive to be closed once, but it was %d times", a.closed)
				}
			}
			if asked != 1 {
				t.Errorf("expected the resolver to be asked once, but it was %d times", asked)
			}
		})
	}
}

func TestNoResolver(t *testing.T) {
	t.Parallel()
	newWorld(t).wantError(t, helmv1alpha1.Chart{FromResource: []byte(`{"name": "chart"}`)}, nil,
		chartsource.ReasonResolverMissing, v1alpha1.ErrorConfigurationProblem,
		"chart.fromResource", "needs a resolver", "chart.resourceRef, chart.ref, chart.helmChartRepo or chart.archive")
}

// TestResolverHangs: the end of the call ends a Read in progress.
func TestResolverHangs(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	resolver := chart.ResolverFunc(func(context.Context, *chart.ResolveRequest) (*chart.Resolved, error) {
		return &chart.Resolved{Archive: &cancelling{File: reader, cancel: cancel}}, nil
	})
	w := newWorldWith(t, chartsource.Config{Resolvers: map[chart.Field]chart.Resolver{chart.ResourceRef: resolver}})
	if _, err := w.withContext(ctx, parse(t, helmv1alpha1.Chart{ResourceRef: "eA=="})); !errors.Is(err, errAborted) {
		t.Errorf("expected the cause of the context's end, but found %v", err)
	}
}

var errAborted = errors.New("aborted")

// cancelling ends the call when its content is read.
type cancelling struct {
	*os.File
	cancel context.CancelCauseFunc
}

func (c *cancelling) Read(p []byte) (int, error) {
	c.cancel(errAborted)
	return c.File.Read(p)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the tape is torn") }
