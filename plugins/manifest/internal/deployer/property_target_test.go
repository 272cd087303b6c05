package deployer_test

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The target of the property test, in the terms of the model.

const (
	kindConfigMap   = "ConfigMap"
	kindSecret      = "Secret"
	kindService     = "Service"
	kindRose        = "Rose"
	kindClusterRole = "ClusterRole"
)

func isClusterScoped(at slot) bool { return at.kind == kindClusterRole }

// slots are the places for objects. The name of a cluster-scoped one is that of the namespace, so that no two games share it.
var slots = []slot{
	{kindConfigMap, "a"}, {kindConfigMap, "b"}, {kindSecret, "a"}, {kindService, "a"}, {kindRose, "a"}, {kindClusterRole, ""},
}

// kindOnTarget says where objects of a kind are, and where in them their values.
type kindOnTarget struct {
	resource schema.GroupVersionResource
	values   []string
}

// playground is a namespace on the target, and the cluster-scoped objects of its name.
type playground struct {
	*world

	namespace string
	kinds     map[string]kindOnTarget
}

func (w *world) playgroundIn(namespace string) playground {
	return playground{world: w, namespace: namespace, kinds: map[string]kindOnTarget{
		kindConfigMap:   {configMaps, []string{"data"}},
		kindSecret:      {secrets, []string{"data"}},
		kindService:     {services, []string{"metadata", "annotations"}},
		kindRose:        {w.roses(), []string{"spec"}},
		kindClusterRole: {roles, []string{"metadata", "annotations"}},
	}}
}

func (p playground) objectsOf(kind string) dynamic.ResourceInterface {
	if isClusterScoped(slot{kind: kind}) {
		return p.admin.Resource(p.kinds[kind].resource)
	}
	return p.admin.Resource(p.kinds[kind].resource).Namespace(p.namespace)
}

func (p playground) nameOf(at slot) string {
	if isClusterScoped(at) {
		return p.namespace
	}
	return at.name
}

// manifest returns the object with the fields.
func (p playground) manifest(at slot, f fields) object {
	o := p.part(at, f)
	o["apiVersion"], o["kind"] = p.kinds[at.kind].resource.GroupVersion().String(), at.kind
	metadata := sub(o, "metadata")
	metadata["name"] = p.nameOf(at)
	if !isClusterScoped(at) {
		metadata["namespace"] = p.namespace
	}
	if at.kind == kindService {
		sub(o, "spec")["ports"] = []any{object{"port": int64(80)}}
	}
	if at.kind == kindRose {
		// Where a manifest that is applied does not have a map any more, and the kind has no schema of it, the API server drops the map with
		// the fields that others have in it.
		sub(o, "spec")
	}
	return o
}

// part returns the fields alone, as a JSON merge patch has them.
func (p playground) part(at slot, f fields) object {
	o := object{}
	for name, value := range f {
		section, key, _ := strings.Cut(name, "/")
		switch section {
		case fieldRest:
		case fieldImmutable:
			o[fieldImmutable] = value == "true"
		case "labels", "annotations":
			sub(o, "metadata", section)[key] = orNull(value)
		default:
			sub(o, p.kinds[at.kind].values...)[key] = orNull(encoded(at, value))
		}
	}
	return o
}

func orNull(value string) any {
	if value == null {
		return nil
	}
	return value
}

func encoded(at slot, value string) string {
	if at.kind == kindSecret && value != null {
		return base64.StdEncoding.EncodeToString([]byte(value))
	}
	return value
}

// sub returns the map at a path of an object, which is made if there is none.
func sub(o object, path ...string) object {
	for _, name := range path {
		inner, ok := o[name].(object)
		if !ok {
			inner = object{}
			o[name] = inner
		}
		o = inner
	}
	return o
}

// fieldsOf is the inverse of manifest.
func (p playground) fieldsOf(at slot, o *unstructured.Unstructured) (fields, error) {
	f := fields{fieldRest: ""}
	for name, value := range o.GetLabels() {
		f["labels/"+name] = value
	}
	if made, ok := o.GetAnnotations()["example.org/made"]; ok {
		f[fieldMade] = made
	}
	if o.Object[fieldImmutable] == true {
		f[fieldImmutable] = "true"
	}
	values := map[string]string{}
	// A map whose fields were all applied by one manager, and is now empty, is null if another manager has it too.
	if found, ok, err := unstructured.NestedFieldNoCopy(o.Object, p.kinds[at.kind].values...); err != nil {
		return nil, err
	} else if ok && found != nil {
		if values, _, err = unstructured.NestedStringMap(o.Object, p.kinds[at.kind].values...); err != nil {
			return nil, err
		}
	}
	for name, value := range values {
		if "annotations/"+name == fieldMade {
			continue
		}
		if at.kind == kindSecret {
			text, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return nil, err
			}
			value = string(text)
		}
		f[valuePrefix+name] = value
	}
	return f, nil
}

// look returns all objects. It gets them one by one, since lists have to wait until the cache of the API server is up to date.
func (p playground) look() (map[slot]*unstructured.Unstructured, error) {
	var mu sync.Mutex
	all := map[slot]*unstructured.Unstructured{}
	var looks errgroup.Group
	for _, at := range slots {
		looks.Go(func() error {
			o, err := p.objectsOf(at.kind).Get(p.Context(), p.nameOf(at), metav1.GetOptions{})
			if err != nil {
				return client.IgnoreNotFound(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all[at] = o
			return nil
		})
	}
	return all, looks.Wait()
}

// tape is the connection of plugins to the target. It counts what changes something there, and at one request something goes wrong.
type tape struct {
	mu     sync.Mutex
	writes []string
	// strikeIn is after how many requests it goes wrong; 0 for never.
	strikeIn int
	fault    strike
	struck   bool
	// dead says that the plugin was killed: nothing that it still does reaches anybody.
	dead bool
}

// strike is what goes wrong at a request.
type strike struct {
	// done: it takes effect, and only its answer is lost.
	done bool
	// refused: the target answers that it cannot do it now.
	refused bool
	// killed: the plugin ends with it.
	killed bool
}

func (p *tape) begin(strikeIn int, fault strike) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes, p.strikeIn, p.fault, p.struck, p.dead = nil, strikeIn, fault, false, false
}

// next says whether the next request takes effect, and what goes wrong with it; nil for nothing.
func (p *tape) next() (done bool, wrong *strike) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false, &strike{}
	}
	if p.strikeIn--; p.strikeIn != 0 {
		return true, nil
	}
	p.struck, p.dead = true, p.fault.killed
	return p.fault.done, &p.fault
}

// takeStruck tells whether something went wrong since it was asked last, and whether the plugin was killed.
func (p *tape) takeStruck() (struck, killed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	struck, killed = p.struck, p.dead
	p.struck = false
	return struck, killed
}

func (p *tape) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = false
}

func (p *tape) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *tape) written() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

func (p *tape) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		done, wrong := p.next()
		if !done {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			if wrong.refused {
				return unavailable(r), nil
			}
			return nil, errStruckDown
		}
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if r.Method != http.MethodGet && !r.URL.Query().Has("dryRun") && response.StatusCode < http.StatusBadRequest {
			p.mu.Lock()
			p.writes = append(p.writes, r.Method+" "+r.URL.Path)
			p.mu.Unlock()
		}
		if wrong != nil || p.isDead() {
			_ = response.Body.Close()
			return nil, errStruckDown
		}
		return response, nil
	})
}

var errStruckDown = errors.New("the connection was cut")

func unavailable(r *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}
