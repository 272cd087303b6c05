# Creates a namespace with what the examples refer to, and has functions that show commands with what they print.

create() { kubectl create "$@" >/dev/null; }
create namespace pergola-demo
trap 'kubectl delete namespace pergola-demo --wait=false >/dev/null' EXIT
trap 'exit 1' TERM
create secret generic cluster --from-file=kubeconfig="$KUBECONFIG"
create secret docker-registry registry --docker-server="$REGISTRY" --docker-username="$LOGIN" --docker-password="$PASSWORD"
create -f "$DEMO/objects.yaml"

chapter() { printf '\n== %s\n' "$1"; }
show() { printf '$ %s\n' "$1"; eval "$1"; }
patch() { show "kubectl patch deployitem $1 --type=json -p '[$2]'"; }
exports() {
	show "kubectl get secrets -o go-template='{{range .items}}{{with .data.config}}{{base64decode .}}{{\"\\n\"}}{{end}}{{end}}'"
}
