"""`rbac`: the rights that a run needs on a cluster, for an administrator to grant."""

import typer


def show_rbac() -> None:
    """Print the ClusterRole that a run on a context needs.

    scaletest-runner rbac | kubectl apply -f -
    """
    import yaml

    from scaletest.run.target.rights import cluster_role

    typer.echo(yaml.safe_dump(cluster_role(), sort_keys=False), nl=False)
