"""Typed subsets of objects: the fields that our code reads. What a type does not name is skipped, never decoded."""

import msgspec


class ObjectMeta(msgspec.Struct, rename="camel"):
    """What every object has. Extend it by what is read besides."""

    name: str = ""
    namespace: str = ""
    # Blank in what an informer keeps: two objects that differ in nothing that is read are equal.
    resource_version: str = ""


class Subset(msgspec.Struct, rename="camel"):
    """Extend it by the parts of one kind. An apiserver answers by its schema, so a field needs a default only where
    that lets it be left out."""

    metadata: ObjectMeta

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for cluster-scoped objects."""
        metadata = self.metadata
        return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
