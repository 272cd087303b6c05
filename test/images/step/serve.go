package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
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
	name, user, password := args[0], args[1], args[2]
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	push(content, name, image())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		content.ServeHTTP(w, r)
	}))
	fmt.Fprintf(os.Stdout, "%s/%s\n", server.Listener.Addr(), name)
	select {} // until SIGTERM
}

// push puts an image into a registry without a connection, which needs none of the libraries that find credentials.
func push(content http.Handler, name string, image v1.Image) {
	send := func(method, target, contentType string, body io.Reader) {
		request := httptest.NewRequestWithContext(context.Background(), method, target, body)
		request.Header.Set("Content-Type", contentType)
		answer := httptest.NewRecorder()
		if content.ServeHTTP(answer, request); answer.Code != http.StatusCreated {
			check(fmt.Errorf("%s %s: %d %s", method, target, answer.Code, answer.Body))
		}
	}
	repository, tag, _ := strings.Cut(name, ":")
	blobs, err := image.Layers()
	check(err)
	config, err := partial.ConfigLayer(image)
	check(err)
	for _, blob := range append(blobs, config) {
		digest, err := blob.Digest()
		check(err)
		compressed, err := blob.Compressed()
		check(err)
		send(http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+digest.String(), "application/octet-stream", compressed)
	}
	mediaType, err := image.MediaType()
	check(err)
	manifest, err := image.RawManifest()
	check(err)
	send(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, string(mediaType), bytes.NewReader(manifest))
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
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	check(err)
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: v1.Config{Entrypoint: []string{"/step"}, User: "65534"},
	})
	check(err)
	image, err = mutate.AppendLayers(image, layer)
	check(err)
	return image
}
