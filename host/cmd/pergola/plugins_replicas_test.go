package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/fleet"
)

// podsWithShells is an API server with pods whose containers answer a command. It speaks the protocol of kubectl exec over websockets.
type podsWithShells struct {
	t       *testing.T
	pods    []corev1.Pod
	answers map[string]shellAnswer
}

type shellAnswer struct {
	stdout, stderr string
	code           int
}

func (s *podsWithShells) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const pods = "/api/v1/namespaces/pergola-system/pods"
	name, exec := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, pods+"/"), "/exec")
	answer, there := s.answers[name]
	query := r.URL.Query()
	switch {
	case r.URL.Path == pods && query.Get("labelSelector") == "app.kubernetes.io/name=pergola":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: s.pods})
	case !exec || !there || query.Get("container") != "pergola" || !slices.Equal(query["command"], []string{"pergola", "plugins", "list", "-o", "json"}):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"nobody may do that"}`)
	default:
		s.serve(w, r, answer)
	}
}

func (s *podsWithShells) serve(w http.ResponseWriter, r *http.Request, answer shellAnswer) {
	const stdout, stderr, result = 1, 2, 3
	connection, err := (&websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}).Upgrade(w, r, nil)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer connection.Close()
	status := `{"status":"Success"}`
	if answer.code != 0 {
		status = fmt.Sprintf(`{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with exit code %d","details":{"causes":[{"reason":"ExitCode","message":"%[1]d"}]}}`, answer.code)
	}
	for channel, text := range map[byte]string{stdout: answer.stdout, stderr: answer.stderr} {
		if err := connection.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...)); err != nil {
			s.t.Error(err)
		}
	}
	if err := connection.WriteMessage(websocket.BinaryMessage, append([]byte{result}, status...)); err != nil {
		s.t.Error(err)
	}
	_ = connection.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	_, _, _ = connection.ReadMessage() // until the other side has closed it
}

func replicaPod(name string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pergola-system", Name: name, Labels: map[string]string{"app.kubernetes.io/component": "host"}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func TestPluginsListReplicas(t *testing.T) {
	t.Parallel()
	answerOf := func(list *control.PluginList) shellAnswer {
		document, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return shellAnswer{stdout: string(document)}
	}
	other := somePlugins()
	other.Problem = ""
	other.Plugins[0].Version, other.Plugins[0].SHA256 = "v9", "fedcba9876543210"
	server := httptest.NewServer(&podsWithShells{
		t: t,
		pods: []corev1.Pod{
			replicaPod("pergola-a", corev1.PodRunning), replicaPod("pergola-b", corev1.PodRunning), replicaPod("pergola-c", corev1.PodRunning),
			replicaPod("pergola-d", corev1.PodPending), replicaPod("pergola-e", corev1.PodRunning), replicaPod("pergola-f", corev1.PodRunning),
		},
		answers: map[string]shellAnswer{
			"pergola-a": answerOf(somePlugins()), "pergola-b": answerOf(somePlugins()), "pergola-c": answerOf(other),
			"pergola-e": {stderr: "error: no host of this user is running\n", code: 1},
		},
	})
	defer server.Close()
	kubeconfig := writeFile(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: "`+server.URL+`"}}], users: [{name: u, user: {}}]}`)

	out, err := pergola(t, "plugins", "list", "--replicas", "--kubeconfig", kubeconfig)
	if err == nil || codeOf(err) != exitNo || !strings.Contains(err.Error(), "3 of 6 replicas could not be asked") {
		t.Errorf("expected to hear that not all could be asked, but found: %v", err)
	}
	if !strings.Contains(err.Error(), "not all replicas have the same plugins") {
		t.Errorf("expected to hear that one differs, but found: %v", err)
	}
	expectGolden(t, "replicas.golden.txt", out)

	out, err = pergola(t, "plugins", "list", "--replicas", "--kubeconfig", kubeconfig, "-o", "json")
	var list fleet.List
	if jsonErr := json.Unmarshal([]byte(out), &list); jsonErr != nil || err == nil || len(list.Replicas) != 6 || len(list.Differences) != 1 || list.Replicas[0].Plugins[0].File != somePlugins().Plugins[0].File {
		t.Errorf("expected all replicas, but found %v, %v in %s", jsonErr, err, out)
	}

	for _, replica := range list.Replicas {
		if replica.Component != "host" {
			t.Errorf("expected replicas of the component of their pods, but found %+v", replica)
		}
	}

	for _, tc := range []struct {
		reason string
		args   []string
		code   int
		want   string
	}{
		{reason: "nobody there", args: []string{"-l", "app=other"}, code: exitNo, want: "nobody may do that"},
		{reason: "two things to list", args: []string{"--plugin-dir", "bin"}, code: exitFailure, want: "--replicas and --plugin-dir"},
	} {
		_, err := pergola(t, append([]string{"plugins", "list", "--replicas", "--kubeconfig", kubeconfig}, tc.args...)...)
		if codeOf(err) != tc.code || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: expected %q and the code %d, but found %v", tc.reason, tc.want, tc.code, err)
		}
	}
}
