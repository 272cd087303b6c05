package chartsource_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// archive is one that a resolver hands over.
type archive struct {
	io.Reader
	closed int
}

func (a *archive) Close() error {
	a.closed++
	return nil
}

func archiveOf(content []byte) *archive { return &archive{Reader: bytes.NewReader(content)} }

func TestResolver(t *testing.T) {
	t.Parallel()
	registry, inRegistry, _ := registryWith(t, withLogin)
	missing := ofRef(registry.Ref("nothing", "1"))
	const (
		problem         = v1alpha1.ErrorConfigurationProblem
		failed, invalid = chartsource.ReasonResolveFailed, chartsource.ReasonSourceInvalid
	)
	ofArchive := func(content []byte, digest, from string) *chart.Resolved {
		return &chart.Resolved{Archive: archiveOf(content), Digest: digest, From: from}
	}
	final := sdk.ConfigurationError("NoComponent", "there is none")
	ofChart := func(c helmChart) *chart.Resolved { return &chart.Resolved{Chart: &c} }
	for name, test := range map[string]struct {
		resolved *chart.Resolved
		err      error
		// want is the reason of an error; empty for none.
		want string
		code v1alpha1.ErrorCode
		text string
	}{
		"a chart is fetched with the credentials of the call": {resolved: ofChart(inRegistry)},
		"an archive is taken as it is":                        {resolved: ofArchive(plain, "", "")},
		"another digest": {
			ofArchive(plain, digestOf(other), ""), nil, chartsource.ReasonDigestMismatch, problem, "digest",
		},
		"no archive": {
			ofArchive([]byte("{}"), "", "component x"), nil, chartsource.ReasonArchiveInvalid, problem,
			"component x: expected a gzip",
		},
		"reading fails": {
			&chart.Resolved{Archive: &archive{Reader: iotest.ErrReader(errors.New("the tape is torn"))}}, nil, failed, "",
			"the tape is torn",
		},
		"neither":                 {&chart.Resolved{}, nil, failed, "", "neither"},
		"there is no end to that": {ofChart(helmChart{ResourceRef: "x"}), nil, invalid, problem, "again"},
		"no source":               {ofChart(helmChart{}), nil, invalid, problem, "Required"},
		"the chart is not found":  {ofChart(missing), nil, chartsource.ReasonNotFound, "", missing.Ref},
		"no code: it may heal":    {nil, errors.New("out of order"), failed, "", "out of order"},
		"the code of an error":    {nil, final, failed, problem, "there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item, asked := &v1alpha1.DeployItem{}, 0
			resolver := chart.ResolverFunc(func(_ context.Context, req *chart.ResolveRequest) (*chart.Resolved, error) {
				asked++
				if req.Field != chart.ResourceRef || req.Chart.ResourceRef != "eA==" || req.DeployItem != item ||
					req.Context == nil || req.Log == nil || req.Credentials == nil {
					t.Errorf("expected all of the request, but found %+v", req)
				}
				return test.resolved, test.err
			})
			w := newWorldWith(t, chartsource.Config{
				Resolvers: resolvers(resolver), Config: trusting(registry.Server), ArchiveBytes: 1 << 20,
			})
			req := ask(t, helmChart{ResourceRef: "eA=="}, loginFor(registry.Host()))
			req.DeployItem = item
			if test.want == "" {
				w.wants(t, req, plain)
			} else {
				_, err := w.get(t, req)
				isError(t, err, test.want, test.code, test.text)
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

func resolvers(r chart.Resolver) map[chart.Field]chart.Resolver {
	return map[chart.Field]chart.Resolver{chart.ResourceRef: r}
}

func TestNoResolver(t *testing.T) {
	t.Parallel()
	newWorld(t).wantError(t, helmChart{FromResource: []byte(`{"name": "chart"}`)}, nil,
		chartsource.ReasonResolverMissing,
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
	ctx, leave := aborted(t)
	resolver := chart.ResolverFunc(func(context.Context, *chart.ResolveRequest) (*chart.Resolved, error) {
		return &chart.Resolved{Archive: &cancelling{File: reader, cancel: leave}}, nil
	})
	w := newWorldWith(t, chartsource.Config{Resolvers: resolvers(resolver)})
	if _, err := w.fetch(ctx, helmChart{ResourceRef: "eA=="}); !errors.Is(err, errAborted) {
		t.Errorf("expected the cause of the context's end, but found %v", err)
	}
}

// cancelling ends the call when its content is read.
type cancelling struct {
	*os.File
	cancel func()
}

func (c *cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return c.File.Read(p)
}
