package components

import (
	"context"
	"encoding/json"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/ocm"
	"github.com/pergola-deploy/pergola/sdk"
	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Finder resolves references to components. Its methods can be called concurrently.
type Finder struct {
	reader *ocm.Reader
}

// NewFinder returns a Finder with a Fetcher.
func NewFinder(fetcher *fetch.Fetcher) *Finder { return &Finder{reader: ocm.NewReader(fetcher)} }

// Request has the references for Find. It must not be changed until Find returns.
type Request struct {
	// Blueprint is the reference in the field blueprint, to a resource of Descriptor; nil for none.
	Blueprint *containerv1alpha1.BlueprintReference
	// Descriptor is the field componentDescriptor; nil for none.
	Descriptor *containerv1alpha1.ComponentDescriptor
	// Context and OCMConfig of the call name the places of components; nil for none.
	Context   *v1alpha1.Context
	OCMConfig *sdk.OCMConfig
	// Credentials for registries and addresses. Required.
	Credentials *sdk.Credentials
	// Warning shows the user a problem without an effect on the job. Required.
	Warning func(reason, text string)
}

// Find returns the files of the blueprint, and the descriptors of the component and of all components referenced by
// it. It blocks until they are there or ctx ends. The error is an *sdk.Error, or the cause of ctx.
func (f *Finder) Find(ctx context.Context, req *Request) (*content.Resolved, error) {
	found, err := f.find(ctx, req)
	switch cause := context.Cause(ctx); {
	case err != nil && cause != nil:
		return nil, cause // clearer than its consequence
	case err != nil:
		return nil, explain(err)
	default:
		return found, nil
	}
}

func (f *Finder) find(ctx context.Context, req *Request) (*content.Resolved, error) {
	found := &content.Resolved{}
	if req.Descriptor == nil {
		if req.Blueprint != nil {
			return nil, invalidf("spec.config: blueprint.ref needs componentDescriptor; set it")
		}
		return found, nil
	}
	s, err := f.newSource(ctx, req)
	if err != nil {
		return nil, err
	}
	root, err := s.root(ctx)
	if err != nil {
		return nil, err
	}
	if found.ComponentDescriptors, err = s.descriptors(ctx, root); err != nil {
		return nil, err
	}
	if req.Blueprint != nil {
		found.Files, err = s.blueprint(ctx, root, req.Blueprint.ResourceName)
	}
	return found, err
}

// source has the places of the components of one request.
type source struct {
	finder *Finder
	req    *Request
	// inline is the repository in the item, asked first; nil for none.
	inline *repository
	places component.Places
}

func (f *Finder) newSource(ctx context.Context, req *Request) (*source, error) {
	s := &source{finder: f, req: req}
	repositoryContext, err := s.repositoryContext(ctx)
	if err != nil {
		return nil, err
	}
	s.places, err = component.PlacesOf(repositoryContext, req.OCMConfig, req.Warning)
	return s, err
}

// repositoryContext returns the first place for look-ups of components: the one of the reference, or of the
// descriptor in the item, or else of the Context. It is empty without any of them, and with a repository in the item.
func (s *source) repositoryContext(ctx context.Context) (json.RawMessage, error) {
	if ref := s.req.Descriptor.Reference; ref != nil {
		if len(ref.RepositoryContext) > 0 && string(ref.RepositoryContext) != "null" {
			var err error
			s.inline, err = readRepository(ctx, ref.RepositoryContext)
			if s.inline != nil || err != nil {
				return nil, err
			}
			return ref.RepositoryContext, nil
		}
	} else if known, err := component.Parse(s.req.Descriptor.Inline, "", ""); err != nil {
		return nil, err
	} else if n := len(known.RepositoryContexts); n > 0 {
		last := known.RepositoryContexts[n-1]
		if _, err := component.ParsePlace(last); err == nil { // it may have been in a file before
			return last, nil
		}
	}
	if c := s.req.Context; c != nil && c.RepositoryContext != nil {
		return c.RepositoryContext.Raw, nil
	}
	return nil, nil
}

// root returns the component version named by, or given in, the provider configuration.
func (s *source) root(ctx context.Context) (*component.Version, error) {
	if ref := s.req.Descriptor.Reference; ref != nil {
		if err := component.CheckName("spec.config: componentDescriptor.ref", ref.ComponentName, ref.Version); err != nil {
			return nil, err
		}
		return s.version(ctx, ref.ComponentName, ref.Version)
	}
	return s.given(s.req.Descriptor.Inline, "", "")
}

// given returns a component version with its descriptor in the item; name and version are empty for any. Its home,
// for its content, is the first of its places.
func (s *source) given(document []byte, name, version string) (*component.Version, error) {
	descriptor, err := component.Parse(document, name, version)
	if err != nil {
		return nil, err
	}
	v := &component.Version{Descriptor: descriptor}
	// A component entirely in the item needs neither a place nor a name for it.
	if component.CheckName("", descriptor.Name, descriptor.Version) == nil {
		if places, err := s.places.For(descriptor.Name, descriptor.Version); err == nil {
			v.Home = places[0].Home(descriptor.Name)
		}
	}
	return v, nil
}

// version looks a component version up, first in the item.
func (s *source) version(ctx context.Context, name, version string) (*component.Version, error) {
	if s.inline != nil {
		v, err := s.inline.version(name, version)
		if err == nil || s.places.IsEmpty() {
			return v, err
		}
	}
	return s.finder.reader.Version(ctx, s.places, s.req.Credentials.Registries, name, version)
}

const (
	// maxComponents bounds the components of a list.
	maxComponents = 1000
	// maxDescriptors bounds the bytes of their descriptors.
	maxDescriptors = 8 << 20
)

// descriptors returns the descriptors of a component and of all components referenced by it, each once, in the form
// of schema v2.
func (s *source) descriptors(ctx context.Context, root *component.Version) ([]json.RawMessage, error) {
	known := map[id]bool{{root.Name, root.Version}: true}
	list, bytes, leftOut := []json.RawMessage{root.V2}, len(root.V2), 0
	for queue := root.References; len(queue) > 0; queue = queue[1:] {
		r := queue[0]
		if known[id{r.Component, r.Version}] {
			continue
		}
		if known[id{r.Component, r.Version}] = true; len(known) > maxComponents {
			return nil, tooMuchf("component %s %s refers to more than %d components", root.Name, root.Version, maxComponents)
		}
		next, err := s.referenced(ctx, r)
		switch {
		case err != nil:
			return nil, err
		case next == nil:
			leftOut++
			continue
		}
		list, queue = append(list, next.V2), append(queue, next.References...)
		if bytes += len(next.V2); bytes > maxDescriptors {
			return nil, tooMuchf("the descriptors of component %s %s and its references have more than %d bytes together",
				root.Name, root.Version, maxDescriptors)
		}
	}
	if leftOut > 0 {
		s.req.Warning(reasonLeftOut, leftOutText(root, leftOut))
	}
	return list, nil
}

// referenced returns the component version of a reference; nil with the component descriptor in the item, but without
// a place for the reference in the item or the Context.
func (s *source) referenced(ctx context.Context, r component.Reference) (*component.Version, error) {
	if document := r.Inline(); document != nil {
		return s.given(document, r.Component, r.Version)
	}
	if s.req.Descriptor.Reference == nil && s.places.IsEmpty() {
		return nil, nil //nolint:nilnil // see above
	}
	return s.version(ctx, r.Component, r.Version)
}
