package telemetry

import (
	"context"
	"net/http"
	"net/http/pprof"

	"github.com/pergola-deploy/pergola/host/internal/hostnames"
)

// ListenForProfiles opens an address and returns a Server that Start lets answer what is below /debug/pprof/, as package net/http/pprof does. Whoever
// reaches the address sees what is in the memory of the host: it is for this machine alone, and so are the names under which it may be asked.
func ListenForProfiles(ctx context.Context, address string) (*Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	// A profile takes as long as who asks for it wants.
	handler := hostnames.Names{}.Guard("profiles are for localhost alone", mux)
	return listen(ctx, "profiles", address, &http.Server{Handler: handler, ReadTimeout: requestTimeout})
}
