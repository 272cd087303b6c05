package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func serve([]string) {
	var ready atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "not ready yet", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /release", func(http.ResponseWriter, *http.Request) { ready.Store(true) })
	server := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: time.Minute}
	check(server.ListenAndServe())
}

func serveImage(args []string) {
	user, password := args[1], args[2]
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		content.ServeHTTP(w, r)
	}))
	reference, err := name.ParseReference(fmt.Sprintf("%s/%s", server.Listener.Addr(), args[0]))
	check(err)
	check(remote.Write(reference, image(), remote.WithAuth(&authn.Basic{Username: user, Password: password})))
	fmt.Fprintln(os.Stdout, reference)
	select {} // until SIGTERM
}

// image is an image of this program.
func image() v1.Image {
	program, err := os.ReadFile("/proc/self/exe")
	check(err)
	var files bytes.Buffer
	writer := tar.NewWriter(&files)
	check(writer.WriteHeader(&tar.Header{Name: "step", Mode: 0o755, Size: int64(len(program))}))
	_, err = writer.Write(program)
	check(errors.Join(err, writer.Close()))
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	})
	check(err)
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: v1.Config{Entrypoint: []string{"/step"}, User: "65534"},
	})
	check(err)
	image, err = mutate.AppendLayers(image, layer)
	check(err)
	return image
}
