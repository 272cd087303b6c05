// Command server serves an empty zone for the example deployer, so that it can be tried.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/pergola-deploy/pergola/test/examples/dns/zoneapi"
)

// address and token are those of target.yaml.
const (
	address = "127.0.0.1:8053"
	token   = "example-token"
)

func main() {
	server := &http.Server{
		Addr: address, ReadHeaderTimeout: time.Second,
		Handler: zoneapi.New(token, zoneapi.Faults{Delay: 50 * time.Millisecond, ThrottleEach: 7, Looks: 1}),
	}
	_, _ = fmt.Fprintf(os.Stdout, "the zone is served at http://%s\n", address)
	fmt.Fprintln(os.Stderr, "error:", server.ListenAndServe())
	os.Exit(1)
}
