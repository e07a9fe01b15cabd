"""A user's MJCF or URDF as a MuJoCo model with one motor for each actuated joint."""

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np

from hucrl_ros.config.robot import RobotSettings
from hucrl_ros.errors import ConfigError, one_line
from hucrl_ros.robots.motors import read_motors, replace_motors

GOAL_SIZE = 0.02
"""[m] Radius of the sphere that shows a goal which the model has no body for."""


def model_dependencies(path: Path) -> list[Path]:
    """The model's file and all that it includes: other models, meshes, textures.

    Raises:
        ConfigError: MuJoCo can't read it.
    """
    try:
        names = mujoco.mju_getXMLDependencies(str(path))
    except (ValueError, mujoco.FatalError) as error:
        raise ConfigError(f"{path}: MuJoCo can't read it: {_why(error, path)}") from None
    names += _urdf_meshes(path)
    others = [Path(name) if Path(name).is_absolute() else path.parent / name for name in names]
    return [path, *(other for other in others if other.resolve() != path.resolve())]


def _urdf_meshes(path: Path) -> list[str]:
    """Mesh files that a URDF names, which MuJoCo doesn't list; nothing for an MJCF.

    MuJoCo looks for them in the folder `meshdir`, with `strippath` by their bare names.
    """
    if (root := _urdf(path)) is None:
        return []
    compilers = root.findall("mujoco/compiler")
    folder = next((c.get("meshdir", "") for c in compilers if c.get("meshdir")), "")
    named = {mesh.get("filename", "") for mesh in root.iter("mesh")}
    places = [
        os.path.join(folder, n)  # noqa: PTH118  # as text, like MuJoCo's own
        for name in sorted(named)
        for n in (name, Path(name).name)
    ]
    return [place for place in dict.fromkeys(places) if (path.parent / place).is_file()]


def urdf_kinds(path: Path) -> dict[str, str]:
    """By name, the kinds of a URDF's joints as it says them; nothing for an MJCF."""
    root = _urdf(path)
    joints = [] if root is None else root.findall("joint")
    return {joint.get("name", ""): joint.get("type", "") for joint in joints}


def urdf_velocities(path: Path) -> dict[str, float]:
    """By name, a URDF's velocity limits [rad/s or m/s], which MuJoCo doesn't know; 0 is none.

    Raises:
        ConfigError: one is no number.
    """
    root, limits = _urdf(path), {}
    for joint in [] if root is None else root.findall("joint"):
        if (limit := joint.find("limit")) is not None:
            name, told = joint.get("name", ""), limit.get("velocity", "0")
            try:
                limits[name] = float(told)
            except ValueError:
                raise ConfigError(
                    f"{path}: joint {name!r}: <limit> has velocity = {told!r}; expected a number "
                    "[rad/s or m/s]"
                ) from None
    return {joint: limit for joint, limit in limits.items() if limit > 0.0}


def check_urdf_limits(path: Path) -> None:
    """Refuse limits of a URDF that MuJoCo would drop without a word; nothing for an MJCF.

    Raises:
        ConfigError: names the joint and both limits.
    """
    root = _urdf(path)
    for joint in [] if root is None else root.findall("joint"):
        if joint.get("type") not in ("revolute", "prismatic"):
            continue
        limit = joint.find("limit")
        given = {} if limit is None else limit.attrib
        lower, upper = (float(given.get(name, "0")) for name in ("lower", "upper"))
        if lower > upper:
            raise ConfigError(
                f"{path}: joint {joint.get('name')!r}: <limit> has lower = {lower:g} above "
                f"upper = {upper:g}; expected the lesser one as lower"
            )
        if lower == upper:
            raise ConfigError(
                f"{path}: joint {joint.get('name')!r}: <limit> has lower and upper = {lower:g} "
                "(what isn't given is 0), which MuJoCo takes for no limits; expected lower below "
                "upper, or the type continuous or fixed"
            )


def _urdf(path: Path) -> ElementTree.Element | None:
    """The root of a URDF; None: it is an MJCF."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError:  # MuJoCo is less strict with an MJCF.
        return None
    return root if root.tag == "robot" else None


def build_model(path: Path, settings: RobotSettings) -> mujoco.MjModel:
    """The model, with the sites, goals and motors that `settings` names.

    A model that has just those motors in that order is left as it is.

    Args:
        path: MJCF or URDF.
        settings: Where `actuated` is empty, the motors stay as they are.

    Raises:
        ConfigError: MuJoCo can't load it, or something named in `settings` isn't in it.
    """
    spec = _read(path)
    if settings.timestep is not None:
        spec.option.timestep = settings.timestep
    bodies = {body.name: body for body in spec.bodies}
    present = {site.name for site in spec.sites}
    for name, site in settings.sites.items():
        if name in present:
            raise ConfigError(
                f"{path}: robot.sites.{name}: the model has a site {name!r} already; expected "
                "another name"
            )
        if site.body not in bodies:
            raise ConfigError(
                f"{path}: robot.sites.{name}.body = {site.body!r}: the model has no such body; "
                f"known bodies: {_listed(bodies)}"
            )
        bodies[site.body].add_site(name=name, pos=list(site.position), size=[0.01, 0, 0])
    _add_goals(spec, settings, set(bodies))
    _add_sky(spec)
    model = _compile(spec, path)
    if not settings.actuated:
        return model
    motors = read_motors(model, path, settings)
    driven = [name for name, motor in motors.items() if motor.present]
    if driven != list(settings.actuated) or model.nu != len(driven):
        replace_motors(spec, settings, motors)
        try:
            model = _compile(spec, path)
        except ConfigError as error:
            # Keyframes and sensors may be of motors that aren't there any more.
            raise ConfigError(
                f"{error}; robot.actuated = {list(settings.actuated)} replaces the model's motors "
                f"({', '.join(driven) or 'none'}): take what is theirs out of it"
            ) from None
    return model


def _add_goals(spec: mujoco.MjSpec, settings: RobotSettings, bodies: set[str]) -> None:
    """A mocap body for each goal without one; it hinders nobody."""
    for name in dict.fromkeys(entry.rpartition("_")[0] for entry in settings.context):
        if name and name not in bodies:
            goal = spec.worldbody.add_body(name=name, mocap=True)
            goal.add_geom(
                type=mujoco.mjtGeom.mjGEOM_SPHERE,
                size=[GOAL_SIZE, 0, 0],
                contype=0,
                conaffinity=0,
                rgba=np.array([0.8, 0.15, 0.12, 0.6]),
            )


def _add_sky(spec: mujoco.MjSpec) -> None:
    """Something brighter than black behind a model without textures, such as a URDF."""
    if not spec.textures:
        spec.add_texture(
            name="hucrl_sky",
            type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
            builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=[1.0, 1.0, 1.0],
            rgb2=[0.90, 0.93, 0.96],
            width=64,
            height=384,
        )


def _read(path: Path) -> mujoco.MjSpec:
    try:
        return mujoco.MjSpec.from_file(str(path))
    except (ValueError, mujoco.FatalError) as error:
        raise ConfigError(f"{path}: MuJoCo can't read it: {_why(error, path)}") from None


def _compile(spec: mujoco.MjSpec, path: Path) -> mujoco.MjModel:
    try:
        return spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise ConfigError(f"{path}: MuJoCo can't compile it: {_why(error, path)}") from None


def _hint(line: str, path: Path) -> str:
    """What a file of ROS's lacks for MuJoCo, which says `line`, if anything does."""
    if "no decoder found for mesh" in line:
        return (
            "; MuJoCo reads meshes in STL and OBJ: convert it, and name that file (in a URDF what "
            'is only seen counts with discardvisual="false" alone)'
        )
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # What xacro has made may still declare its namespace.
    if "<xacro:" in text or "${" in text or "$(" in text:
        return f"; it is xacro, which `xacro {path.name} > robot.urdf` makes a URDF of"
    if ("package://" in text or "file://" in text) and "strippath" not in text:
        return (
            '; MuJoCo knows no ROS packages and no file://: <mujoco><compiler meshdir="FOLDER" '
            'strippath="true"/></mujoco> in the URDF says where meshes are (docs/your_robot.md)'
        )
    return ""


def _why(error: Exception, path: Path) -> str:
    line = one_line(error).split(" The visual elements of the spec")[0]
    if "mjMINVAL" in line:
        line += "; expected masses and inertias above 0: in a URDF an <inertial> in each <link>"
    return f"{line}{_hint(line, path)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(name for name in names if name))
